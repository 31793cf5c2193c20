from pathlib import Path

import pytest

from tests.benchmarks.measured import BLOCK, FOLDER, PAGES, fill


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_are_those_measured_last(page: Path) -> None:
    text = page.read_text()
    assert fill(text) == text, (
        f"{page.name} is behind: python -m tests.benchmarks NAME measures and fills it in"
    )


def test_every_block_is_of_a_benchmark() -> None:
    shown = {name for page in PAGES for name in BLOCK.findall(page.read_text())}
    assert shown
    assert shown <= {path.stem for path in FOLDER.glob("*.md")}
