"""Runs side by side: the best setting by its mean over seeds and folds, what differs, curves over each other.

- `differences`: the settings in which runs differ, and those of a run that are not the default; runs that differ in seed
  and fold alone are of one setting.
- `comparable`: the figure to rank by, what it is measured on, and which runs can be ranked together.
- `settings`: means over seeds and folds, the best setting, and both tables.
- `charts`: the curves, and a figure against a setting.
- `folds`: predictions joined over folds; `importance`: which settings mattered.
- `pages`: the page.
"""
