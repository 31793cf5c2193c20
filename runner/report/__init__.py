"""`report.html`: the curves and facts of a run, and pages that compare several.

    python -m runner.report outputs/2026-11-03/12-30-11-ab12             writes its report.html
    python -m runner.report outputs/2026-11-03/*                         writes comparison.html beside them
    python -m runner.report outputs/2026-11-03/12-40-02-cd34             the folder of a sweep: writes its report.html

The pages are single files: no network, no libraries.

- `single`, `comparison`: the pages; `runs`: a run folder as they read it.
- `curves`: metrics as curves; `svg`: curves as charts; `page`, `style`, `script`: pieces, CSS and JavaScript.
- `evaluation`, `predictions`, `answers`, `samples`: sections on what a model gets right.
- `table`: runs as a table of text; `summary`: a run's summary in the terminal.
"""

from iolaus.runner.report.comparison import write_comparison, write_sweep_report
from iolaus.runner.report.single import write_report

__all__ = ["write_comparison", "write_report", "write_sweep_report"]
