"""A suite's results: one row for each model, one column for each task.

- `figures`: the metrics of runs, with means, deviations and intervals; the content of `suite.json`.
- `table`: the table as text, Markdown, LaTeX and csv, and the page.
"""
