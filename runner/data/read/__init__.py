"""The one reader of files and tables, for pretraining, finetuning, images and predictions.

- `files`: finds the files of a path, glob or name, or a data set of the hub; `cards`: data sets' cards.
- `content`, `opened`: unpack and decode; `formats`, with `delimited` and `blocks`: the records of each format.
- `arrow_files`: batches of parquet and arrow files, bounded by what they unpack to.
- `bad_rows`: rows that cannot be used.
- `beir`: folders of BEIR, with queries, passages and grades.
- `rows`: rows in memory for labelled tasks.
- `documents`, `file_documents`: texts or a column, streamed for pretraining; several processes can read pieces of them.
"""
