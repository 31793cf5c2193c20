"""Readers of files.

- `formats`: documents from txt, jsonl, csv, parquet and arrow files; `files`: which files a path names.
- `task_readers`: rows of tables for finetuning; `conll`: sentences of CoNLL files.
"""
