"""`report.html`: the curves and facts of a run, and pages that compare several.

    python -m runner.report outputs/2026-11-03/12-30-11-ab12             writes its report.html
    python -m runner.report outputs/2026-11-03/*                         writes comparison.html beside them
    python -m runner.report outputs/2026-11-03/12-40-02-cd34             the folder of a sweep: writes its report.html

The pages are single files: no network, no libraries. The drawings are made here, a small script reads values out.
"""
