"""What samples are worth: settings that leave some out are measured on the same data."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.judge.folders import KEY, make_run
from tests.cli.judge.test_answers import judged, refused
from tests.cli.judge.test_missing import Start, judge, training
from tiryns.runner.cli.judge.missing import each_source

__all__ = ["training"]

SOURCES = "data.mixture={prose: {source: a.txt, weight: 1}, code: {source: b.txt, weight: 1}}"


def make_sweep(folder: Path, inputs: dict[str, Any], key: str = KEY) -> Path:
    for number, word in enumerate(["data.without=null", "data.without=[3]"]):
        for seed in range(1, 8):
            run = make_run(
                folder / f"{number}-{seed}", seed, 4 - number / 2 + seed / 100, [word], inputs=inputs,
                results={key: 4 - number / 2 + seed / 100},
            )  # fmt: skip
            (run / "metrics.csv").write_text((run / "metrics.csv").read_text().replace(KEY, key))
    return folder


@pytest.mark.parametrize(
    ("inputs", "key"),
    [
        ({"evaluation": {}}, KEY),
        (
            {"evaluation": {"a": "1", "b": "2"}, "order": {"mixture": {"a": "1/2", "b": "1/2"}}},
            "val/mixture/loss",
        ),
    ],
    ids=["labelled", "mixture"],
)
def test_runs_without_samples_are_measured_on_the_same(
    inputs: dict[str, Any], key: str, tmp_path: Path
) -> None:
    sweep = make_sweep(tmp_path / "sweep", inputs, key)
    words = ["--change", "data.without=[3]", "--against", "data.without=null", "--metric", key]
    (found,) = judged(tmp_path, str(sweep), *words)["comparisons"]
    assert found["answer"] == "better"
    assert found["difference"] == pytest.approx(-0.5)


def test_mixtures_in_other_shares_are_measured_on_other_data(tmp_path: Path) -> None:
    inputs = {"evaluation": {"a": "1"}, "order": {"mixture": {"a": "1/2"}}}
    sweep = make_sweep(tmp_path / "sweep", inputs, "val/mixture/loss")
    for run in sweep.glob("1-*"):
        manifest = run / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"1/2"', '"1/3"'))
    words = ["--change", "data.without=[3]", "--against", "data.without=null", "--metric", "val/mixture/loss"]
    assert "other vocabularies" in refused(tmp_path, str(sweep), *words)


def test_each_source_is_a_change_of_its_own(tmp_path: Path, training: Start) -> None:
    words = ["data=mixture", SOURCES]
    change = "data.without=by:source data.substitute=false"
    assert each_source(change, words) == [
        f"data.without=source:{n} data.substitute=false" for n in ("prose", "code")
    ]
    assert each_source("optimizer=muon", words) == ["optimizer=muon"]
    asked = training().asked
    assert (
        judge(tmp_path, "--change", "data.without=by:source", "data=files", "data.source=a.txt").returncode
        == 1
    )
    assert not asked
    with pytest.raises(ValueError, match="choose data=mixture with two or more"):
        each_source(change, ["data=files"])
