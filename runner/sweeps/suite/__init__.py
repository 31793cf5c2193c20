"""Suites: models finetuned and measured on a list of tasks, as one sweep with one table.

- `definition`: the YAML of a suite; `fields`: what its fields may say.
- `words`: the command `tiryns suite=NAME model=A,B` as that of a sweep, and what `model=` may name.
- `in_training`: checks the suites that a run evaluates its weights with.
- `sweep`: launches the jobs stage by stage, chooses the setting of each grid, and writes the table.
"""
