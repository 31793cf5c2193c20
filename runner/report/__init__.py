"""`report.html`: the curves and facts of a run, and pages that compare several."""
