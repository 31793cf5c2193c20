"""A page of each kind to open in a browser."""

from pathlib import Path

import pytest

from tests.report.layout.kinds import pages_of_each_kind


@pytest.fixture(scope="package")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind: a run with everything in it, a long run, a sweep and a comparison."""
    return pages_of_each_kind(tmp_path_factory.mktemp("pages"))
