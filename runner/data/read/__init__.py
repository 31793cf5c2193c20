"""The one reader of files and tables, for pretraining, finetuning, images and predictions.

- `files`: what a path, glob or name stands for; `hub`: data sets of the hub.
- `opened`: decoding and unpacking; `formats`, with `delimited` and `conll`: the records of each format.
- `rows`: rows in memory, with the place of each, for labelled tasks.
- `documents`, `file_documents`: one column of rows, streamed, for pretraining.
"""
