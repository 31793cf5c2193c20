"""Predictions of a model, joined over ranks, measured and written to files.

- `predictions`: the base class; `kinds`: one file per kind.
- `metrics`: the metrics of tasks, as torchmetrics; `correlations`: those of numbers; `squad`: SQuAD's comparison of
  answers; `ranks`: cosines of pairs of texts, and figures of ranked candidates and passages.
- `similarity`: how texts of two sets are scored by their vectors.
- `monitor`: the metric that chooses the best checkpoint.
- `classifiers`: what frozen features tell by linear probes and nearest neighbours.
- `totals`: sums over an evaluated set, and its figures.
- `resampling`, `statistics`: how far a figure, or the difference of two settings, may be chance.
- `calibration`: whether probabilities can be believed, and sets of labels.
- `joined`: figures of predictions by several runs, such as those of folds.
- `files`: predictions and tables in the run folder.
"""
