"""Labelled rows for finetuning.

- `task`: the base classes of tasks and their tokenised samples.
- `classification`, `token_classification`, `question_answering`: one task each.
- `labels`: names and numbers of labels; `tags`: tags of words (IOB2) and their decoding.
- `finetuning`: `FinetuningData`, the data module that serves a task.
- `examples`: what every reader of rows has.
"""
