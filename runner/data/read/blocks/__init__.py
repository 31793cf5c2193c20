"""Formats whose records are blocks of lines.

- `conll`: sentences, a word a line, with columns of tags; also CoNLL-U.
- `fasta`: sequences of letters, each under its header.
"""
