"""A plugin of pytest: a skip for what could have been installed is a failure where `TIRYNS_TEST_NO_SKIPS` is set."""

import os
from collections.abc import Generator
from typing import TypeVar

import pytest

from tests.support.needs import VARIABLE, is_allowed

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _without_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _without_skip((yield))


def _without_skip(report: Report) -> Report:
    installed = os.environ.get(VARIABLE)
    if installed is None or not report.skipped or hasattr(report, "wasxfail"):
        return report
    assert isinstance(report.longrepr, tuple)  # path, line and reason
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not is_allowed(reason, installed.split(",")):
        report.outcome = "failed"
        report.longrepr = f"skipped, which {VARIABLE} forbids: {reason}"
    return report
