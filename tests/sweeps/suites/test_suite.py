"""A suite as one sweep: its stages, its table, and the same suite run again; jobs are fakes but in the slow tests."""

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.report.pages import read
from tests.support.in_process import Done, refused, succeeded, tiryns_here
from tests.sweeps.suites.glue_files import write_glue
from tiryns.runner.run.files import read_sweep
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps.suite.sweep import SuiteSweep
from tiryns.runner.sweeps.sweeper import Job

SUITE = {
    "overrides": ["trainer.max_steps=3"], "seeds": 2,
    "tasks": {
        "hard": {"metric": "accuracy", "grid": {"optimizer.lr": ["1e-3", "1e-4", "1e-5"]}},
        "easy": {"metric": "accuracy", "start_from": "hard", "overrides": ["data.max_length=32"]},
    },
}  # fmt: skip

Launched = list[list[dict[str, str]]]


def fake_launches(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[[dict[str, str]], bool] = lambda _: False
) -> Launched:
    """Jobs that end at once: a better figure for a smaller rate, a later seed, and for bert_mini."""
    stages: Launched = []

    def launch(self: SuiteSweep, jobs: Sequence[Job]) -> list[Any]:
        stages.append([])
        for job in jobs:
            given = {key: value for key, _, value in (word.partition("=") for word in job.overrides)}
            stages[-1].append(given)
            if fails(given):
                job.folder.update_status(state="failed", error="the loss is not a number")
                continue
            figure = 0.5 - 100 * float(given.get("optimizer.lr", 0)) + 0.01 * int(given["seed"])
            figure += 0.2 * (given["model"] == "bert_mini")
            results = {"val/validation/accuracy": figure, "test/test/accuracy": figure - 0.1}
            job.folder.update_status(state="done", results=results)
        return []

    monkeypatch.setattr(SuiteSweep, "launch", launch)
    return stages


def run(folder: Path, *words: str, suite: Any = SUITE) -> tuple[Done, dict[str, Any], Path]:
    (folder / "my.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    done = tiryns_here(folder, *words)
    sweep = max(folder.glob("outputs/*/*-sweep"))
    return done, json.loads((sweep / "suite.json").read_text()), sweep


def test_stages_table_and_what_a_second_start_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = fake_launches(monkeypatch)
    done, content, sweep = run(tmp_path, "suite=my.yaml", "model=bert_tiny,bert_mini")
    assert done.returncode == 0, done.stderr
    # first seeds, the better half, then what starts from it
    assert [len(stage) for stage in stages] == [6, 4, 4]
    starts = {job["model.name_or_path"] for job in stages[2]}
    assert {job["model"] for job in stages[2]} == {"pretrained"}
    chosen = content["models"][0]["tasks"]["hard"]
    assert chosen["setting"] == {"optimizer.lr": "1e-5"}
    assert (chosen["settings"], chosen["dropped"], chosen["on"]) == (3, 1, "test")
    assert chosen["figures"] == pytest.approx({"1": 0.409, "2": 0.419})
    assert f"'{sweep / chosen['runs']['1']}'" in starts
    assert content["best"]["mean"]["model"] == "bert_mini"

    lines = done.stdout.splitlines()
    first = next(i for i, line in enumerate(lines) if line.split() == ["model", "mean", "hard", "easy"])
    tiny, mini = lines[first + 1 : first + 3]
    assert tiny.split()[0] == "bert_tiny"
    assert "41.4 ± 0.7" in tiny
    assert mini.startswith("* bert_mini")
    assert "Measured on the test set, chosen on the validation set: hard, easy." in done.stdout
    page = read(sweep / "suite.html")
    assert "41.4 ± 0.7" in page.table("mean").column("hard")
    assert len(page.tables) == 3
    printed = tiryns_here(tmp_path, "report", str(sweep), "--format", "csv").stdout
    table = list(csv.DictReader(printed.splitlines()))
    assert [row["task"] for row in table] == ["mean", "hard", "easy"] * 2
    assert float(table[1]["mean"]) == pytest.approx(0.414)
    markdown = tiryns_here(tmp_path, "report", str(sweep), "--format", "md").stdout
    assert "| **bert_mini** |" in markdown
    latex = tiryns_here(tmp_path, "report", str(sweep), "--format", "tex").stdout
    assert r"\textbf{bert\_mini} & " in latex
    assert "\n% Measured on the test set" in latex

    before, count = len(stages), len(content["runs"])
    same = run(tmp_path, "suite=my.yaml", "model=bert_tiny,bert_mini", "resume=auto")[0]
    assert "6 of 6 jobs are done already" in same.stdout
    assert len(stages) == before
    lost = sweep / content["models"][1]["tasks"]["easy"]["runs"]["2"]
    Run(lost).update_status(state="running")
    _, again, _ = run(tmp_path, f"resume={sweep}", "model=bert_tiny,bert_mini,bert_small")
    # the new model, and with its last stage what was lost
    assert [len(stage) for stage in stages[before:]] == [3, 2, 3]
    assert len(again["runs"]) == count + 7
    assert [row["model"] for row in again["models"]] == ["bert_tiny", "bert_mini", "bert_small"]
    assert read_sweep(sweep)["suite"]["models"] == ["bert_tiny", "bert_mini", "bert_small"]


@pytest.mark.slow
def test_failed_settings_are_out_and_a_task_without_any_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_launches(monkeypatch, lambda job: job.get("optimizer.lr") == "1e-5")
    done, content, first = run(tmp_path, "suite=my.yaml", "model=bert_tiny", "seed=5", "sampler.seed=${seed}")
    cell = content["models"][0]["tasks"]["hard"]
    assert done.returncode == 0, "another setting was chosen"
    assert "sampler.seed=${seed}" in Run(first / "0").overrides()
    assert (cell["setting"], cell["failed"]) == ({"optimizer.lr": "1e-4"}, 1)
    assert "failed: 2 (hard bert_tiny optimizer.lr=1e-5 seed=5): the loss is not a number" in done.stderr
    stages = fake_launches(monkeypatch, lambda _: True)
    done, content, sweep = run(tmp_path, "suite=my.yaml", "model=bert_tiny", "outputs=outputs/other")
    sweep = max(tmp_path.glob("outputs/other/*/*-sweep"))
    content = json.loads((sweep / "suite.json").read_text())
    assert done.returncode == 1
    assert len(stages) == 1, "what starts from it waits"
    problems = {name: task["problem"] for name, task in content["models"][0]["tasks"].items()}
    assert problems["hard"].startswith("all settings have failed: 0: the loss")
    assert problems["easy"] == "waits for hard"
    assert f"not complete; go on with: tiryns resume={sweep.relative_to(tmp_path)}" in done.stderr


def test_tasks_that_differ_in_their_figure_alone_share_their_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = {"one": {"metric": "accuracy"}, "same": {"metric": "val/validation/accuracy"}}
    stages = fake_launches(monkeypatch)
    _, content, _ = run(tmp_path, "suite=my.yaml", "model=bert_tiny", suite={"seeds": 2, "tasks": tasks})
    assert [len(stage) for stage in stages] == [2], "a job for each seed"
    one, same = (content["models"][0]["tasks"][name] for name in tasks)
    assert one["runs"] == same["runs"]
    assert same["mean"] == pytest.approx(one["mean"] + 0.1)


WRONG = {
    "suite": (["suite=smal"], "there is no suite 'smal'; .*Did you mean 'small'"),
    "file": (["suite=none.yaml"], "there is no file 'none.yaml'"),
    "model": (
        ["suite=small", "model=bert_tny"],
        "model=bert_tny: there is no such folder.*Did you mean 'bert_tiny'",
    ),
    "model twice": (["suite=small", "model=bert_tiny,bert_tiny"], "bert_tiny is named twice"),
    "unfinished run": (["suite=small", "model=unfinished"], "there is no trained model in 'unfinished'"),
    "field": (["suite=small", "suite.task=tokens"], "suite.task: a suite has .*Did you mean 'tasks'"),
    "setting": (
        ["suite=small", "optimizer.lrr=1"],
        "suite small, task docstrings, model modernbert_tiny: there is no setting optimizer.lrr",
    ),
    "plan": (["plan", "suite=small"], "tiryns plan shows one run, not a suite"),
    "code": (["suite=code.yaml"], "suite code.yaml, task a, .*imports lets code of others run"),
}


@pytest.mark.rows(1)
@pytest.mark.parametrize("command", WRONG.values(), ids=WRONG)
def test_wrong_command_ends_with_one_line_before_anything_runs(
    command: tuple[list[str], str], tmp_path: Path
) -> None:
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "status.json").write_text('{"state": "failed"}')
    (tmp_path / "code.yaml").write_text("tasks: {a: {metric: f1, overrides: ['imports=[os]']}}")
    error = refused(tmp_path, *command[0])
    assert len(error.splitlines()) == 1
    assert re.search(command[1], error)
    assert not (tmp_path / "outputs").exists()


@pytest.mark.slow
def test_suites_of_ones_own_are_found_and_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_launches(monkeypatch)
    (tmp_path / "conf" / "suite").mkdir(parents=True)
    content = f"# My suite.\n{yaml.safe_dump(SUITE, sort_keys=False)}"
    (tmp_path / "conf" / "suite" / "mine.yaml").write_text(content)
    succeeded(tmp_path, "--config-dir", "conf", "suite=mine", "model=bert_tiny", "suite.tasks=[hard]")
    monkeypatch.setenv("TIRYNS_CONF", str(tmp_path / "conf"))
    assert "My suite." in tiryns_here(tmp_path, "info", "suite=mine").stdout
    assert "suite=glue_fixed" in tiryns_here(tmp_path, "info", "suite").stdout


STEPS = ["trainer.max_steps=2", "trainer.validate_every=2", "trainer.precision=32-true", "trainer=cpu"]
TINY = ["model.hidden_size=32", "model.intermediate_size=64", "data.vocab_size=300"]
TINY.append("sampler.global_batch_size=8")


@pytest.mark.slow
def test_small_runs_end_to_end(tmp_path: Path) -> None:
    succeeded(tmp_path, "suite=small", "model=bert_tiny", *STEPS, *TINY, "seed=1,2", "resume=auto")
    (sweep,) = tmp_path.glob("outputs/*/*-sweep")
    content = json.loads((sweep / "suite.json").read_text())
    assert content["complete"]
    for name, task in content["models"][0]["tasks"].items():
        assert len(task["figures"]) == 2, name
        assert task["on"] == "test"
        run = json.loads((sweep / task["runs"]["1"] / "status.json").read_text())
        assert task["figures"]["1"] == run["results"][f"test/test/{content['tasks'][name]['metric'][0]}"]


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["glue", "glue_fixed"])
def test_every_task_of_glue_is_read_from_both_kinds_of_files(suite: str, tmp_path: Path) -> None:
    sources = {"files": write_glue(tmp_path / "hub", as_on_the_hub=True), "zip": write_glue(tmp_path / "zip")}
    fixed = ["optimizer.lr=1e-3", "optimizer.weight_decay=0", "trainer.max_epochs=null", "seed=1"]
    means = []
    for source, folder in sources.items():
        words = [f"suite={suite}", "model=bert_tiny", f"suite.data={folder}", f"suite.source={source}"]
        words.append(f"outputs={source}")
        succeeded(tmp_path, *words, *STEPS, *TINY, *fixed)
        (file,) = (tmp_path / source).glob("*/*/suite.json")
        content = json.loads(file.read_text())
        assert len(content["tasks"]) == 8
        assert content["complete"]
        tasks = content["models"][0]["tasks"]
        assert {task["on"] for task in tasks.values()} == {"validation"}
        mnli = file.parent / tasks["mnli"]["runs"]["1"]
        assert str(mnli) in (file.parent / tasks["rte"]["runs"]["1"] / "config.yaml").read_text()
        means.append({name: task["mean"] for name, task in tasks.items()})
    assert all(-1 <= mean <= 1 for mean in means[0].values())
