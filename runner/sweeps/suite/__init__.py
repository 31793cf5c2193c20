"""Suites: models finetuned and measured on a list of tasks, as one sweep with one table.

- `definition`: the YAML of a suite, also if a run evaluates its weights with it; `fields`: its fields, checked.
- `sweep`: launches the jobs stage by stage, chooses the setting of each grid, and writes the table.
"""
