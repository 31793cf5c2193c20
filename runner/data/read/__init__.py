"""The one reader of files and tables, for pretraining, finetuning, images and predictions.

`files` finds what a path, glob or name stands for; `opened` decodes and unpacks; `formats` (with `delimited` and
`conll`) gives the records of each format; `hub` loads data sets of the hub. `rows` holds them in memory, with the place
of each, for labelled tasks; `documents` streams one column of them, for pretraining.
"""
