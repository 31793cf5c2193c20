"""`tiryns judge` by the metric of a suite."""

from pathlib import Path

from tests.cli.judge.folders import KEY, make_run
from tests.cli.judge.test_answers import OBJECTIVE, one, refused
from tiryns.runner.report.comparison.comparable import kinds_of
from tiryns.runner.run.folder import load_run


def test_objectives_are_compared_by_a_suite_if_it_is_the_same(tmp_path: Path) -> None:
    """Its tasks measure weights alike, whatever they were trained for."""
    key, suite = "suite/minimal_pairs/mean", {"callback.suite.suite": "minimal_pairs"}
    runs = []
    for seed in range(1, 7):
        for name, gain, objective in (("a", 0, {}), ("b", 0.1, OBJECTIVE)):
            results, settings = {key: 0.7 + seed / 100 + gain}, {**suite, **objective}
            runs.append(make_run(tmp_path / name / str(seed), seed, 4.0, results=results, settings=settings))
    found = one(tmp_path, "a", "b", "--metric", key)
    assert found["answer"] == "better"
    assert "objective" in refused(tmp_path, "a", "b", "--metric", KEY)
    opened = [load_run(run) for run in runs]
    assert kinds_of(opened, key) == ([0] * 12, [])
    assert kinds_of(opened, KEY).numbers == [0, 1] * 6
    other = {**suite, "callback.suite.overrides": ["suite.tasks=[tokens]"]}
    runs.append(make_run(tmp_path / "c" / "1", 1, 4.0, results={key: 0.9}, settings=other))
    assert "differ in their suite (overrides: None and" in refused(tmp_path, "a", "c", "--metric", key)
    assert kinds_of([*opened, load_run(runs[-1])], key).differ_in == ["suite"]
