"""What samples are worth: settings that leave some out are measured on the same data."""

import json
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from tests.cli.judge.folders import KEY, make_run
from tests.cli.judge.test_answers import judged, refused
from tests.cli.judge.test_missing import Start, judge, training
from tiryns.runner.cli.judge.sides import each_source, finished_runs, setting_of
from tiryns.runner.sweeps.sweeper import combinations, place

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


@pytest.mark.slow
def test_each_source_is_a_change_of_its_own(tmp_path: Path, training: Start) -> None:
    words = ["data=mixture", SOURCES]
    change = "data.without=by:source data.substitute=false"
    own = [f"data.without=source:{name} data.substitute=false" for name in ("prose", "code")]
    assert each_source(change, words) == own
    assert each_source("optimizer=muon", words) == ["optimizer=muon"]
    asked = training().asked
    alone = ["--change", "data.without=by:source", "data=files", "data.source=a.txt"]
    assert (judge(tmp_path, *alone).returncode, asked) == (1, [])
    with pytest.raises(ValueError, match="choose data=mixture with two or more"):
        each_source(change, ["data=files"])


def test_source_is_shown_as_typed_and_found_as_noted_before(tmp_path: Path) -> None:
    r"""Sweeps of 0.3 noted `source\:code`, as Hydra escapes a colon."""
    typed, noted = "data.without=source:code", r"data.without=source\:code"
    assert setting_of(typed).words == setting_of(noted).words == [typed]
    overrides = OverridesParser.create().parse_overrides([typed, "seed=1,2"])
    jobs = combinations(overrides)
    assert jobs == [[typed, "seed=1"], [typed, "seed=2"]]
    for number, job in enumerate(jobs):
        make_run(tmp_path / str(number), number + 1, 4.0, [noted], inputs={"evaluation": {}})
        (tmp_path / str(number) / "overrides.json").write_text(json.dumps([noted, job[1]]))
    found = place(tmp_path, jobs, [None, None])  # type: ignore[list-item]
    assert [job.folder.path.name for job in found] == ["0", "1"]
    assert len(finished_runs(tmp_path, [typed], [1, 2])) == 2
