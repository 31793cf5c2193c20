"""Readers of files: documents, rows of tables, CoNLL and SQuAD."""
