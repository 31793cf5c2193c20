"""One browser for all pages."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.report.browser import running_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with running_browser() as found:
        yield found
