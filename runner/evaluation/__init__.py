"""Predictions of a model, joined over ranks, measured and written to files.

- `predictions`: the base class, which joins; one file per kind: `labels` (texts), `words`, `spans` (questions) and
  `written_answers` (images).
- `metrics`: the metrics of tasks, as torchmetrics; `squad`: how SQuAD compares answers.
- `monitor`: the metric that chooses the best checkpoint.
- `files`: predictions and tables in the run folder.
"""
