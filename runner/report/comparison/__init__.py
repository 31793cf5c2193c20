"""Runs side by side: the best setting by its mean over seeds and folds, what differs, curves over each other.

- `differences`: the settings in which runs differ; runs that differ in seed and fold alone are of one setting.
- `comparable`: what a run is measured on, and which runs can be ranked together.
- `goal`: the figure to rank by, and figures' names in words.
- `settings`: means over seeds and folds, the best setting, and both tables.
- `charts`: the curves, and a figure against a setting.
- `folds`: predictions joined over folds; `importance`: which settings mattered.
- `pages`: the page.
"""
