"""Suites: models finetuned and measured on a list of tasks, as one sweep with one table.

- `definition`: reads the YAML of a suite, and checks the suites that a run's callbacks name; `fields`: checks its fields.
- `sweep`: launches the jobs stage by stage, chooses the setting of each grid, and writes the table.
"""
