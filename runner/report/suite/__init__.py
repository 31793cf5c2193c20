"""A suite's results: one row for each model, one column for each task.

- `figures`: the figures of runs, and their sums: means, deviations, intervals; the content of `suite.json`.
- `table`: the table as text, Markdown, LaTeX and csv, and the page.
"""
