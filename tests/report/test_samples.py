import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.pages import make_run, read
from tiryns.runner.report.single import write_report

TEXT = ["the old ", {"true": "bridge", "right": True, "guesses": [["bridge", 0.75], ["river", 0.25]]}]
TEXT += [" and <b>", {"true": " winter", "right": False, "guesses": [["<i>", 0.5], ["again", 0.1]]}, "."]


def test_masked_tokens_are_marked_as_guessed_or_not(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "samples.json").write_text(json.dumps({"books": [TEXT]}))
    page = read(write_report(run))
    assert page.texts("p", "sample") == ["the old bridge and <b> winter<i>."]
    assert page.texts("mark", "right") == ["bridge"]
    assert page.texts("mark", "wrong") == ["winter<i>"]
    titles = [marks["title"] for tag, marks, _ in page.elements if tag == "mark"]
    assert titles == ["bridge 75%, river 25%", "<i> 50%, again 10%"]


@pytest.mark.parametrize("damaged", [{}, {"books": []}, [1], {"books": [[{"true": 1}]]}])
def test_damaged_samples_are_left_out(tmp_path: Path, damaged: Any) -> None:
    run = make_run(tmp_path / "run")
    (run / "samples.json").write_text(json.dumps(damaged))
    assert "Samples" not in read(write_report(run)).texts("h2")
