from tests.benchmarks.measured import BLOCK, FOLDER, README, fill


def test_figures_are_those_measured_last() -> None:
    text = README.read_text()
    assert fill(text) == text, (
        "the README is behind: python -m tests.benchmarks NAME measures and fills it in"
    )


def test_every_block_is_of_a_benchmark() -> None:
    shown = BLOCK.findall(README.read_text())
    assert shown
    assert set(shown) <= {path.stem for path in FOLDER.glob("*.md")}
