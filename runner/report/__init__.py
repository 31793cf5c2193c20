"""`report.html`: the curves and facts of a run, and pages that compare several.

The pages are single files: no network, no libraries. Each holds one JSON of facts, which `page.js` draws in the browser.

- `single`: the page of a run; `comparison`: the page of several runs, with means over seeds.
- `suite`: the table of a suite.
- `phases`: the phases of a run in its charts, and as a table.
- `curves`: metrics as curves, which `chart.js` draws; `page`: the parts of a page, and its file.
- `evaluation`, `predictions`: sections on what a model gets right, and the page of `tiryns evaluate`.
- `table`: runs side by side as text; `summary`: a run's summary in the terminal; `notebook`: a run in a notebook.
"""
