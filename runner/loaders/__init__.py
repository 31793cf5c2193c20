"""Data modules for a plain `lightning.Trainer`: the readers, stores and collators of a run behind a `DataLoader`.

`reading` finds the documents of a path and a split, `passes` makes batches of stored samples and `streaming` of documents
as they come; `pretraining` and `finetuning` are the data modules, which `runner.data` names.
"""
