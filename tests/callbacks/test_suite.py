"""Weights are evaluated with a suite as a run trains, and the run stays the same; the suite is a small program of the
tests' own but where its command is tested."""

import json
import logging
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from tests.conftest import TINY, Command
from tests.support.in_process import refused
from tests.support.processes import WarmPopen, wait_until
from tiryns.runner.callbacks import suite as module
from tiryns.runner.callbacks.suite import SuiteEvaluation
from tiryns.runner.logging import MetricsFile
from tiryns.runner.protocols import RunData, RunModule
from tiryns.runner.run import signals
from tiryns.runner.run.folder import Run
from tiryns.runner.run.metrics_file import read_metrics
from tiryns.runner.run.signals import Stopped
from tiryns.runner.train import watchers

FAKE = """
import json, os, pathlib, sys, time
words = dict(word.split("=", 1) for word in sys.argv[1:])
folder = pathlib.Path(words["hydra.sweep.dir"].strip("'"))
assert folder.joinpath("model", "model.safetensors").exists()
assert not {"TIRYNS_HEARTBEAT", "PMI_RANK"} & {*os.environ}
step, here = int(folder.name[5:]), folder.parent.parent.parent
with open(here / "calls", "a") as calls:
    print(step, *sys.argv[1:], file=calls)
if (here / f"hold-{step}").exists():
    (here / "held").touch()
    while (here / f"hold-{step}").exists(): time.sleep(0.02)
if (here / f"fail-{step}").exists():
    sys.exit("error: no figures today")
cell = {"mean": 0.5 + step / 1000}
row = {"model": "m", "tasks": {"easy": cell}, "summary": {"mean": cell}}
content = {"suite": words["suite"], "complete": True, "runs": [], "models": [row]}
(folder / "suite.json").write_text(json.dumps(content))
"""
"""Writes figures that tell the step."""

WORDS = [
    "callback=[default,suite]", "callback.suite.every=4", "trainer.max_steps=10", "callback.manifest.every=1",
]  # fmt: skip
FILES = ("order.txt", "digests.txt")

Train = Callable[..., Run]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    monkeypatch.setenv("TIRYNS_HEARTBEAT", str(tmp_path / "beat"))
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setattr(module, "PROGRAM", FAKE)
    monkeypatch.setattr(module, "WITH_PARENT", "")
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LOOKS", 0.02)
    caplog.set_level(logging.INFO, "tiryns")


def calls(folder: Path) -> list[int]:
    return [int(line.split()[0]) for line in (folder / "calls").read_text().splitlines()]


def curve(run: Run) -> dict[int, float]:
    found = read_metrics(run.path / "metrics.csv").get("suite/probe/mean")
    assert found is None or len({*found.steps}) == len(found.steps), "a step is logged twice"
    return dict(zip(found.steps.tolist(), found.values.tolist(), strict=True)) if found else {}


CURVE = {4: 0.504, 8: 0.508, 10: 0.51}


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
def test_in_the_loop_gives_a_curve_and_leaves_the_run_as_it_is(
    run_here: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[bool] = []
    evaluate = SuiteEvaluation._evaluate

    def watched(self: SuiteEvaluation, trainer: Any, pl_module: Any) -> None:
        def drawn() -> Any:
            numbers: Any = np.random.get_state()  # noqa: NPY002  of the whole process
            return random.getstate(), numbers[1].tolist(), torch.get_rng_state().tolist()

        before = drawn()
        evaluate(self, trainer, pl_module)
        states.append(drawn() == before)

    monkeypatch.setattr(SuiteEvaluation, "_evaluate", watched)
    run = run_here(*WORDS, "model.dropout=0.1")
    assert states == [True] * 3
    assert curve(run) == pytest.approx(CURVE)
    results = run.status["results"]
    assert results["suite/probe/easy"] == pytest.approx(0.51)
    assert results["suite/probe/step"] == 10
    assert "suite/probe/mean" in (run.path / "report.html").read_text()
    assert not [*run.path.glob("suite/*/model")], "weights go once their figures are in"
    plain = run_here("trainer.max_steps=10", "callback.manifest.every=1", "model.dropout=0.1", folder="plain")
    for name in FILES:
        assert (run.path / name).read_text() == (plain.path / name).read_text()
    assert run.identity() == plain.identity()


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
def test_what_was_cut_goes_on_and_what_is_complete_is_not_made_again(
    run_here: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hold-8").touch()
    monkeypatch.setattr(signals, "first", lambda: 15 if (tmp_path / "held").exists() else None)
    with pytest.raises(Stopped):
        run_here(*WORDS)
    run = Run(tmp_path / "run")
    assert calls(tmp_path) == [4, 8]
    assert curve(run) == pytest.approx({4: 0.504})
    assert (run.path / "suite" / "step-00000008" / "model").is_dir()
    assert not Run(run.path / "suite" / "step-00000008").is_locked(), "its process has ended"
    (tmp_path / "hold-8").unlink()
    (tmp_path / "held").unlink()
    run = run_here(*WORDS)
    assert calls(tmp_path) == [4, 8, 8, 10]
    assert curve(run) == pytest.approx(CURVE)


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
def test_killed_run_takes_over_the_evaluations_of_equal_weights_alone(
    run_here: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Any, trainer: Any, *_: Any) -> None:
        if trainer.global_step == 9:
            raise KeyError("killed")

    words = [*WORDS, "checkpoint.every_steps=6"]
    with monkeypatch.context() as patch:
        patch.setattr("tiryns.runner.callbacks.Throughput.on_train_batch_end", killed)
        with pytest.raises(KeyError):
            run_here(*words)
    assert calls(tmp_path) == [4, 8]
    run = Run(tmp_path / "run")
    run_here(*words)
    assert calls(tmp_path) == [4, 8, 10], "step 8 came again from the checkpoint of step 6"
    assert curve(run) == pytest.approx(CURVE)

    rewound = Run(tmp_path / "other" / "run")
    rewound.path.mkdir(parents=True)
    old = rewound.path / "suite" / "step-00000004"
    (old / "model").mkdir(parents=True)
    (old / "weights.txt").write_text("those of another trajectory")
    (old / "suite.json").write_text(
        (run.path / "suite/step-00000004/suite.json").read_text().replace("0.504", "0.9")
    )
    run_here(*words, folder="other/run")
    assert calls(tmp_path / "other") == [4, 8, 10]
    assert curve(rewound) == pytest.approx(CURVE)


@pytest.mark.usefixtures("fake")
def test_failure_is_one_warning(run_here: Train, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "fail-4").touch()
    run = run_here(*WORDS)
    warnings = [
        r.getMessage() for r in caplog.records if "suite" in r.getMessage() and r.levelname == "WARNING"
    ]
    assert len(warnings) == 1, warnings
    assert warnings[0].startswith("step 4: suite probe: error: no figures today; see ")
    assert "run/suite/step-00000004" in warnings[0]
    assert calls(tmp_path) == [4, 8, 10], "a session tries once"
    assert curve(run) == pytest.approx({8: 0.508, 10: 0.51})


@pytest.mark.usefixtures("fake")
def test_jobs_are_not_waited_for_and_their_figures_are_taken_in(
    run_here: Train, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hold-4").touch()
    (tmp_path / "hold-10").touch()
    taken: list[int] = []
    evaluate = SuiteEvaluation._evaluate

    def watched(self: SuiteEvaluation, trainer: Any, pl_module: Any) -> None:
        if trainer.global_step == 10:
            (tmp_path / "hold-4").unlink()
            for process in [p for f, p in self._started.items() if f.name != "step-00000010"]:
                process.wait(20)
        evaluate(self, trainer, pl_module)
        taken.append(len(curve(Run(tmp_path / "run"))))

    monkeypatch.setattr(SuiteEvaluation, "_evaluate", watched)
    run = run_here(*WORDS, "callback.suite.jobs=true", 'callback.suite.overrides=["seed=7"]')
    assert taken[0] == 0, "step 4 is at work yet"
    assert taken[2] == 2, "at the end both earlier ones are there"
    assert curve(run) == pytest.approx({4: 0.504, 8: 0.508})
    assert run.status["results"]["suite/probe/step"] == 8
    said = [r.getMessage() for r in caplog.records if "no figures yet of step-00000010 in" in r.getMessage()]
    assert len(said) == 1
    assert "tiryns resume=" in said[0]
    assert (tmp_path / "calls").read_text().splitlines()[0].endswith(" seed=7")
    waiting = Run(run.path / "suite" / "step-00000010")
    assert waiting.is_locked(), "it outlives the run"
    (tmp_path / "hold-10").unlink()
    wait_until(lambda: not waiting.is_locked())
    assert json.loads((waiting.path / "suite.json").read_text())["complete"]


def test_figures_that_come_late_are_read_in_the_order_of_their_steps(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    for step in (8, 4):
        file.log_metrics({"suite/probe/mean": step / 10}, step)
    assert read_metrics(file.path)["suite/probe/mean"].values.tolist() == [0.4, 0.8]


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["callback.suite.suite=prob"], "there is no suite 'prob'"),
        (["callback.suite.overrides=['suite.tasks=[docs]']"], "suite probe has no task 'docs'"),
        (["callback.suite.overrides=['model=bert_tiny']"], "'model=bert_tiny' does not count there"),
        (
            ["callback.suite.overrides=['trust_remote_code=true']"],
            "trust_remote_code lets code of others run",
        ),
        (["callback.suite.every=0"], "callback.suite.every"),
    ],
)
def test_wrong_setting_ends_in_one_line_before_the_first_step(
    tmp_path: Path, words: list[str], said: str
) -> None:
    error = refused(tmp_path, "callback=[default,suite]", *words)
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert not [*tmp_path.glob("outputs/**/metrics.csv")]


def test_lightnings_own_loop_is_refused() -> None:
    with pytest.raises(ValueError, match=r"SuiteEvaluation needs global batches.*leave it out"):
        watchers({"suite": SuiteEvaluation("probe", 5, False, [])}, RunData(), RunModule())


TOPICS = {"rivers": "herons watch the river", "winter": "snow under the old bridge"}


def own_suite(folder: Path) -> Path:
    """A suite of one probe on a csv of a few lines."""
    rows = [f"{text} {n},{label}" for n in range(12) for label, text in TOPICS.items()]
    for name in ("train", "validation"):
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    words = ["mode=probe", "data=classification", "trainer=cpu", "data.max_length=32", "data.num_workers=0"]
    words += [f"data.{name}={folder}/{name}.csv" for name in ("train", "validation")]
    content = {"seeds": [1], "tasks": {"topics": {"overrides": words, "metric": "accuracy"}}}
    (folder / "mine.yaml").write_text(yaml.safe_dump(content))
    return folder / "mine.yaml"


@pytest.mark.slow
def test_real_suite_measures_the_exported_weights(
    run_here: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", WarmPopen)
    words = ["callback=[default,suite]", f"callback.suite.suite={own_suite(tmp_path)}", "trainer.max_steps=2"]
    run = run_here(*words)
    output = (run.path / "suite/step-00000002/output.txt").read_text()
    assert 0 <= run.status["results"]["suite/mine/topics"] <= 1, output
    assert read_metrics(run.path / "metrics.csv")["suite/mine/mean"].steps.tolist() == [2]


@pytest.mark.slow
def test_two_ranks_wait_longer_than_a_collective_may_take(
    tiryns: Command, text_file: Path, tmp_path: Path
) -> None:
    """The suite takes several seconds, in which rank 1 must not be taken for hung."""
    common = [*TINY, f"data.source={text_file}", "trainer.devices=2", "trainer.max_steps=4"]
    common.append("callback.manifest.every=1")
    words = ["callback=[default,suite]", "callback.suite.every=2"]
    words.append(f"callback.suite.suite={own_suite(tmp_path)}")
    done = tiryns(*common, *words, "trainer.timeout=2.5", "trainer.max_restarts=0", "outputs=with")
    assert "no progress" not in done.stderr + done.stdout
    tiryns(*common, "outputs=without")
    run, plain = (next(tmp_path.glob(f"{name}/*/*/status.json")).parent for name in ("with", "without"))
    assert read_metrics(run / "metrics.csv")["suite/mine/topics"].steps.tolist() == [2, 4]
    for name in FILES:
        assert (run / name).read_text() == (plain / name).read_text()
