"""A run that has not left its unigram entropy says so: at validations, in the status, in lists of runs and on pages."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.report.pages import make_run, read, write_comparison
from tests.support.in_process import tiryns_here
from tiryns.runner.callbacks import Plateau
from tiryns.runner.optim import get_scheduler
from tiryns.runner.report.single import write_report
from tiryns.runner.report.summary import end_summary, plateau_note, plateau_of
from tiryns.runner.run.folder import Run


def figures(**losses: float) -> dict[str, float]:
    """Losses of sets whose unigram entropy is 5."""
    return {f"val/{name}/loss": loss for name, loss in losses.items()} | {
        f"val/{name}/unigram_entropy": 5.0 for name in losses
    }


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ({"a": 4.89}, None),
        ({"a": 4.91}, "stands at"),
        ({"a": 5.0}, "stands at"),
        ({"a": 5.09}, "stands at"),
        ({"a": 5.11}, "is above"),
        ({"a": 9.0}, "is above"),
        ({"a": 9.0, "b": 4.5}, None),  # one set is of another kind of text
        ({"a": 9.0, "b": 5.0}, "of b stands at"),
        ({"a": float("nan")}, "is not below"),
        ({}, None),
    ],
)
def test_a_loss_has_left_when_it_is_two_percent_below(losses: dict[str, float], said: str | None) -> None:
    found = plateau_of(figures(**losses))
    assert (found is None) == (said is None)
    assert said is None or said in str(found)


def test_a_loss_far_above_needs_training_and_no_other_rate() -> None:
    said = "knows less than how frequent tokens are: train longer"
    assert str(plateau_of(figures(a=5.11))).endswith(said)
    assert "try a lower optimizer.lr" in str(plateau_of(figures(a=5.0)))
    assert "try a lower optimizer.lr" in str(plateau_of(figures(a=float("nan"))))


def test_a_classifier_at_the_largest_class_says_so_in_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level = {"val/a/majority_accuracy": 0.5, "test/t/majority_accuracy": 0.6}
    at_it = {"val/a/accuracy": 0.5, "val/a/loss": 1.0, "test/t/accuracy": 0.6} | level
    assert plateau_of(at_it | {"test/t/accuracy": 0.61}) is None
    assert plateau_of(at_it | {"val/a/accuracy": 0.52}) is None
    said = "val/a/accuracy 0.500 is no better than always naming the largest class (0.500): take more steps"
    assert str(plateau_of(at_it)).startswith(said)
    end_summary(tmp_path, at_it)
    assert [line for line in capsys.readouterr().out.splitlines() if said in line]
    (tmp_path / "status.json").write_text(json.dumps({"state": "done", "results": at_it}))
    (tmp_path / "metrics.csv").write_text("step,time,val/a/accuracy\n5,1,0.4\n9,2,0.5\n")
    assert said in read(write_report(tmp_path)).text
    assert "at the largest class" in tiryns_here(tmp_path, "runs", "--outputs", ".").stdout
    (tmp_path / "metrics.csv").write_text("step,time,val/a/accuracy\n5,1,0.8\n9,2,0.5\n")
    assert plateau_of(at_it, Run(tmp_path)) is None  # it was better before


@pytest.mark.parametrize(("figure", "worse", "better"), [("mse", 1.02, 0.98), ("exact_match", 0.9, 1.01)])
def test_a_model_no_better_than_one_answer_to_all_says_so(figure: str, worse: float, better: float) -> None:
    level = {f"val/a/constant_{figure}": 1.0, "val/a/loss": 1.0}
    said = str(plateau_of(level | {f"val/a/{figure}": worse}))
    assert said.startswith(
        f"val/a/{figure} {worse:.3f} is no better than one answer to all (1.000): take more steps"
    )
    assert "class_weights" not in said
    assert plateau_note(said) == "at one answer"
    assert plateau_of(level | {f"val/a/{figure}": better}) is None


@pytest.mark.parametrize(
    ("train", "validation", "overfits"),
    [
        ([4, 3, 1, 0.1], [6, 5.2, 7, 8], True),
        ([4, 3, 3, 4], [6, 5.2, 7, 8], False),
        ([4, 3, 1, 0.1], [9, 8.5, 8.2, 8], False),
    ],
)
def test_a_loss_that_rises_while_training_falls_is_overfitting(
    train: list[float], validation: list[float], overfits: bool, tmp_path: Path
) -> None:
    rows = [
        f"{n}00,1,{loss},{valid}" for n, (loss, valid) in enumerate(zip(train, validation, strict=True), 1)
    ]
    (tmp_path / "metrics.csv").write_text("\n".join(["step,time,train/loss,val/a/loss", *rows, ""]))
    said = str(plateau_of(figures(a=8.0), Run(tmp_path)))
    at_it = str(plateau_of({"val/a/loss": 8.0, "val/a/unigram_entropy": 8.0}, Run(tmp_path)))
    assert ("overfitting" in at_it) == overfits
    assert ("best at step 200 (5.200) and rises since" in said, "train longer" in said) == (
        overfits,
        not overfits,
    )
    assert plateau_note(said) == ("overfitting" if overfits else "above unigram entropy")


def test_lists_and_pages_tell_a_loss_above_from_one_at_that_level(tmp_path: Path) -> None:
    above = make_run(tmp_path / "outputs" / "day" / "above", loss=8.0)
    at = make_run(tmp_path / "outputs" / "day" / "at", loss=6.25)
    page = read(write_comparison(tmp_path, [above, at]))
    texts = [tiryns_here(tmp_path, *words).stdout for words in (["runs"], ["runs", "compare", "above", "at"])]
    for shown in (*texts, page.table("note").column("note")):
        assert [shown.count(note) for note in ("above unigram entropy", "at unigram entropy")] == [1, 1]


def test_a_loss_without_that_baseline_says_nothing() -> None:
    assert plateau_of({"val/a/loss": 26.0, "val/b/loss": 30.0}) is None


def validate(folder: Path, loss: float, step: int, **baselines: float) -> Run:
    """One validation of a run whose rate rises for 10 steps."""
    run = Run(folder)
    run.path.mkdir(exist_ok=True)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = get_scheduler(optimizer, warmup_steps=10, max_steps=100)
    trainer: Any = SimpleNamespace(
        is_global_zero=True, global_step=step, default_root_dir=str(folder),
        lr_scheduler_configs=[SimpleNamespace(scheduler=scheduler)],
    )  # fmt: skip
    module: Any = SimpleNamespace(last_metrics={"val/a/loss": loss}, baselines=baselines)
    Plateau().on_validation_end(trainer, module)
    return run


def test_validations_behind_the_warm_up_say_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    level = {"val/a/unigram_entropy": 5.0}
    with caplog.at_level(logging.WARNING, "tiryns"):
        assert not validate(tmp_path / "run", 5.1, step=9, **level).status.get("plateau")
        assert not caplog.messages, "the rate still rises"
        assert validate(tmp_path / "run", 5.1, step=99, **level).status["plateau"]
        assert not caplog.messages, "too early to tell"
        run = validate(tmp_path / "run", 5.01, step=100, **level)
        assert caplog.messages == [f"step 100: {run.status['plateau']}"]
        assert "the loss 5.010 of a stands at its unigram entropy 5.000" in caplog.text
        assert "train longer; if the loss stays there, try a lower optimizer.lr" in caplog.text
        validate(tmp_path / "run", 4.0, step=110, **level)
        validate(tmp_path / "run", 5.0, step=120)  # compared with nothing
    assert len(caplog.messages) == 1
    assert run.status["plateau"] is None


def test_end_list_and_pages_show_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stuck = make_run(tmp_path / "outputs" / "day" / "stuck")
    left = make_run(tmp_path / "outputs" / "day" / "left", loss=3.0)
    status = json.loads((stuck / "status.json").read_text())
    status["results"]["val/books/loss"] = 6.24
    (stuck / "status.json").write_text(json.dumps(status))
    end_summary(stuck, status["results"])
    assert "the loss 6.240 of books stands at its unigram entropy 6.250" in capsys.readouterr().out
    words = "stands at its unigram entropy 6.250: the model knows how frequent tokens are"
    assert words in " ".join(read(write_report(stuck)).texts("note")), "the run is short"
    (stuck / "status.json").write_text(json.dumps(status | {"step": 500}))
    assert words in read(write_report(stuck)).texts("problem")[0]
    assert not read(write_report(left)).texts("problem")
    rows = tiryns_here(tmp_path, "runs").stdout.splitlines()
    assert ["at unigram entropy" in row for row in rows] == ["stuck" in row for row in rows]
    assert words in tiryns_here(tmp_path, "runs", "show", "stuck").stdout
    assert "plateau" not in tiryns_here(tmp_path, "runs", "show", "left").stdout
    assert "note" not in read(write_comparison(tmp_path, [left])).heads
