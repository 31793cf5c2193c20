"""`--json` of every command: one document with the documented keys on standard output, and nothing else there."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.judge.folders import make_sweep
from tests.conftest import TINY, train_here
from tests.support.in_process import tiryns_here
from tests.support.json_keys import document, documented_keys
from tiryns.runner.cli.agents.tools import DOCUMENTS
from tiryns.runner.cli.commands import COMMANDS
from tiryns.runner.cli.reproduce import rebuilding
from tiryns.runner.run.command.json_output import as_json, json_alone
from tiryns.runner.run.folder import Run


def asked(cwd: Path, command: str, *words: object, status: int = 0) -> Any:
    """The document of a command, which is in `DOCUMENTS`."""
    typed = max((name for name in COMMANDS if command.startswith(name)), key=len)
    action = ["compare"] if command == "runs compare" else ["show"] if command == "runs show" else []
    done = tiryns_here(cwd, *typed.split(), *action, *map(str, words), "--json")
    assert done.returncode == status, done.stderr
    return document(command, done.stdout)


def test_keys_are_those_of_the_page() -> None:
    keys = {command: {key.split(".")[0] for key in keys} for command, keys in documented_keys().items()}
    assert keys == {command: set(keys.split()) for command, keys in DOCUMENTS.items()}


def test_what_is_known_without_a_run(tmp_path: Path) -> None:
    assert asked(tmp_path, "version")["tiryns"]
    groups = {group["group"]: group for group in asked(tmp_path, "info")["groups"]}
    assert "adamw" in groups["optimizer"]["options"]
    fields = asked(tmp_path, "info WORD", "optimizer=lion", "optimizer.lr=0.5")["fields"]
    (rate,) = (each for each in fields if each["key"] == "optimizer.lr")
    assert (rate["value"], rate["source"]) == (0.5, "override")
    words = ("scheduler=cosine", "scheduler.warmup_steps=3", "trainer.max_steps=9", "optimizer.lr=0.3")
    assert asked(tmp_path, "new", "my-first")["package"] == "my_first"
    assert asked(tmp_path, "doctor")["chosen"]["processes"] == 1
    rates = asked(tmp_path, "schedule", *words)["rates"]
    assert [each["step"] for each in rates] == list(range(9))
    assert rates[1]["lr"] == pytest.approx(0.1, rel=1e-12)


def test_runs_are_listed_shown_and_compared(tmp_path: Path) -> None:
    sweep = make_sweep(
        tmp_path / "outputs", {"optimizer.lr=0.1": [4.0, 1 / 3], "optimizer.lr=0.2": [3.0, 3.0]}
    )
    assert [run["results"]["objective"] for run in asked(tmp_path, "runs")] == [4.0, 1 / 3, 3.0, 3.0]
    assert asked(tmp_path, "runs show", "outputs/1")["results"]["objective"] == 1 / 3
    compared = asked(tmp_path, "runs compare", *(f"outputs/{i}" for i in range(4)))
    assert compared["settings"][0]["mean"] == (4.0 + 1 / 3) / 2
    assert [run["best"] for run in compared["runs"]] == [True, True, False, False]
    assert asked(tmp_path, "runs compare", *(sweep / str(i) for i in range(4)))["notes"] == compared["notes"]
    report = tiryns_here(tmp_path, "report", "outputs", "--json")
    assert document("runs compare", report.stdout) == compared
    found = asked(tmp_path, "audit", "outputs/0", "outputs/1", status=4)
    assert found["first_difference"] == {"step": 1, "hashes": [f"{seed:012x}" for seed in (1, 2)]}
    same = tiryns_here(tmp_path, "audit", "outputs/0", "outputs/2", "--json")
    assert '"first_difference": null' in same.stdout
    (tmp_path / "outputs" / "2" / "order.txt").write_text("1 0000")  # killed as it wrote
    assert "has recorded no step" in tiryns_here(tmp_path, "audit", "outputs/0", "outputs/2").stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    words = ["trainer.max_steps=2", "trainer.validate_every=0", "callback.manifest.every=1"]
    return train_here(tmp_path_factory.mktemp("json") / "run", text_file, *words)


def test_commands_that_take_a_run(run: Run, tmp_path: Path, text_file: Path) -> None:
    assert {each["step"] for each in asked(tmp_path, "order --steps", run.path, "--steps", "1:2")} == {1, 2}
    assert asked(tmp_path, "order --find", run.path, "--find", text_file)["trained_steps"] == 2
    assert asked(tmp_path, "order RUN RUN", run.path, run.path)["different_steps"] == []
    assert asked(tmp_path, "verify", run.path)["unchanged"]
    assert asked(tmp_path, "reproduce", run.path, "--with", run.path)["verdict"] == "identical"
    (predicted,) = asked(tmp_path, "predict", run.path, "seven [MASK] herons")["predictions"]
    assert predicted["text"] == "seven [MASK] herons"
    assert asked(tmp_path, "push", run.path, "pushed")["target"] == "pushed"
    assert asked(tmp_path, "consolidate", run.path, "made")["target"] == "made"
    assert asked(tmp_path, "average", run.path, "--out", "mean")["target"] == "mean"
    run.path.joinpath("order.txt").rename(tmp_path / "kept")
    problems = asked(tmp_path, "verify", run.path, status=4)["problems"]
    (tmp_path / "kept").rename(run.path / "order.txt")
    assert problems == ["order.txt is missing"]


def test_plan_and_its_refusal_of_several(tmp_path: Path, text_file: Path) -> None:
    words = [*TINY, f"data.source={text_file}"]
    plan = asked(tmp_path, "plan", *words, "phases=[{name: a, share: 0.5}, {name: b, share: 0.5}]")
    assert sum(bar["share"] for bar in plan["lengths"]["histogram"]) == pytest.approx(1, abs=1e-12)
    assert plan["optimization"]["schedule"]["lr"] == 0.003
    assert plan["memory"]["weights"] == 4 * sum(
        group["parameters"] for group in plan["optimization"]["groups"]
    )
    several = tiryns_here(tmp_path, "plan", "-m", *words, "seed=1,2", "--json")
    assert (several.returncode, several.stdout) == (1, "")
    assert "leave out -m" in several.stderr


def test_document_has_floats_in_full_and_null_for_no_number(tmp_path: Path) -> None:
    import numpy as np

    value = {"a": [1 / 3, float("nan")], "b": np.array([[0.1, np.inf]]), "c": np.float32(0.5), "d": tmp_path}
    plain = {"a": [0.3333333333333333, None], "b": [[0.1, None]], "c": 0.5, "d": str(tmp_path)}
    assert json.loads(as_json(value)) == plain


def test_report_of_recorded_code_stands_alone_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`tiryns reproduce --code --json`: the recorded program prints it, in a process of its own."""
    (tmp_path / "runner/cli/reproduce").mkdir(parents=True)
    monkeypatch.setattr(rebuilding, "worktree_of", lambda *_: tmp_path)
    monkeypatch.setattr(rebuilding, "PROGRAM", "print('{\"verdict\": null}')")
    with json_alone():
        assert rebuilding.run_recorded_code({"code": {}}, None, []) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"verdict": None}
    assert f"`git worktree remove {tmp_path}` removes it" in printed.err
