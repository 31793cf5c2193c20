"""The one reader of files and tables, for pretraining, finetuning, images and predictions.

- `files`: finds the files of a path, glob or name; `hub`: data sets of the hub.
- `opened`: decodes and unpacks; `formats`, with `delimited`, `conll` and `squad`: the records of each format.
- `dialects`: delimiter, encoding and column names of a table; `bad_rows`: rows that cannot be used.
- `pieces`: parts of a source, for several processes.
- `rows`: rows in memory for labelled tasks; `documents`, `file_documents`: a column of rows, streamed, for pretraining.
"""
