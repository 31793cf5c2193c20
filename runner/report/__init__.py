"""`report.html`: the curves and facts of a run, and pages that compare several runs.

Each page is a single file that needs no network and no library. `page.js` draws its facts, one JSON, in the browser.

- `single`: the page of a run; `comparison`: the page of several runs, with means over seeds.
- `suite`: the table of a suite.
- `phases`: the phases of a run in its charts, and as a table.
- `curves`: metrics as curves, which `chart.js` draws; `page`: the parts of a page, and its file.
- `evaluation`, `predictions`: sections on what a model gets right, and the page of `tiryns evaluate`.
- `table`: runs side by side as text; `summary`: a run's summary in the terminal; `notebook`: a run in a notebook.
"""
