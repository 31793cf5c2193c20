"""A browser, and a page of each kind to open in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser import running_browser
from tests.report.layout.kinds import pages_of_each_kind


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="package")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind: a run with everything in it, a long run, a sweep and a comparison."""
    return pages_of_each_kind(tmp_path_factory.mktemp("pages"))
