"""Compares runs: the best setting by its mean over seeds and folds, the settings that differ, and overlaid curves.

- `differences`: the settings in which runs differ, and the settings of a run that differ from the defaults. Runs that
  differ only in seed and fold have the same setting.
- `comparable`: the metric to rank by, the data it is measured on, and the runs that can be ranked together.
- `settings`: means over seeds and folds, the best setting, and both tables.
- `charts`: the curves, and a metric against a setting.
- `folds`: predictions joined over folds; `importance`: how much each setting explains.
- `pages`: the page that compares runs.
"""
