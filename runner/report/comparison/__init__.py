"""Runs side by side: the best setting by its mean over seeds, what differs between runs, curves over each other.

- `differences`: the settings in which runs differ; runs that differ in the seed alone are of one setting.
- `comparable`: what a run is measured on, and which runs can be ranked together.
- `settings`: means over seeds, the best setting, and both tables; `charts`: the curves, and a figure against a setting.
- `pages`: the page.
"""
