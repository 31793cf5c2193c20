import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser import opened
from tests.report.pages import make_run, read
from tiryns.runner.report.single import write_report

TEXT = ["the old ", {"true": "bridge", "right": True, "guesses": [["bridge", 0.75], ["river", 0.25]]}]
TEXT += [" and <b>", {"true": " winter", "right": False, "guesses": [["<i>", 0.5], ["again", 0.1]]}, "."]


def test_masked_tokens_are_marked_as_guessed_or_not(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "samples.json").write_text(json.dumps({"books": [TEXT]}))
    page = read(write_report(run))
    (samples,) = page.of("samples")
    (pieces,) = samples["sets"]["books"]
    assert [piece if isinstance(piece, str) else piece["text"] for piece in pieces] == [
        *("the old ", "bridge", " and <b>", " winter", ".")
    ]
    assert [(piece["right"], piece["guesses"][0][0]) for piece in (pieces[1], pieces[3])] == [
        (True, "bridge"),
        (False, "<i>"),
    ]


@pytest.mark.parametrize("damaged", [{}, {"books": []}, [1], {"books": [[{"true": 1}]]}])
def test_damaged_samples_are_left_out(tmp_path: Path, damaged: Any) -> None:
    run = make_run(tmp_path / "run")
    (run / "samples.json").write_text(json.dumps(damaged))
    assert "Samples" not in read(write_report(run)).texts("section")


def test_samples_are_drawn_as_text_with_marks(browser: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "samples.json").write_text(json.dumps({"books": [TEXT, TEXT]}))
    with opened(browser, write_report(run)) as tab:
        assert tab.locator("p.sample").all_text_contents() == ["the old bridge and <b> winter<i>."] * 2
        assert tab.locator("p.sample mark.right").all_text_contents() == ["bridge"] * 2
        assert "[object" not in tab.locator("main").text_content()
