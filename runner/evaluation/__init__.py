"""Predictions of a model, joined over ranks, measured and written to files.

- `predictions`: the base class; `kinds`: one file per kind.
- `metrics`: the metrics of tasks, as torchmetrics; `correlations`: metrics of numbers; `squad`: SQuAD's comparison of
  answers; `ranks`: cosines of pairs of texts, and metrics of ranked candidates and passages.
- `similarity`: scores of the texts of two sets by their vectors.
- `monitor`: the metric that chooses the best checkpoint.
- `classifiers`: linear probes and nearest neighbours on frozen features.
- `totals`: sums over an evaluated set, and its metrics.
- `resampling`, `statistics`: whether a metric, or the difference of two settings, may be chance.
- `calibration`: calibration of probabilities, and sets of labels.
- `joined`: metrics of predictions by several runs, such as the runs of folds.
- `files`: predictions and tables in the run folder.
"""
