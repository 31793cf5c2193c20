"""Averages of the models of several seeds, measured on the validation and test sets of their runs."""

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.modules.conftest import finetuning
from tests.modules.test_finetuning import evaluation
from tests.support.precision import rounding
from tiryns.runner.cli.models import soups
from tiryns.runner.cli.models.average import average
from tiryns.runner.inference.evaluated import evaluate, model_to_measure
from tiryns.runner.run.folder import Run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, task_files: dict[str, list[str]]) -> Path:
    """The folder of a model, and of a sweep over three seeds that begin with it."""
    finetune = finetuning(folder := tmp_path_factory.mktemp("soups"), task_files)
    start = finetune("classification", "trainer.max_steps=6", "optimizer.lr=0.003", folder="start")
    short = ["trainer.max_steps=4", "optimizer.lr=0.003"]
    for i in (1, 2, 3):
        finetune("classification", *short, f"seed={i}", folder=f"sweep/{i}", start=start)
    return folder


@pytest.fixture
def sweep(trained: Path, tmp_path: Path) -> list[Run]:
    """Its runs in a copy of their folder."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return [Run(tmp_path / "sweep" / str(i)) for i in (1, 2, 3)]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.mark.slow
def test_soups_of_a_sweep_are_measured_as_its_runs_were(sweep: list[Run], tmp_path: Path) -> None:
    folder = sweep[0].path.parent
    uniform = average([str(folder)], tmp_path / "uniform", soup="uniform")
    record = json.loads((uniform / "average.json").read_text())
    soup = record["soup"]
    for run in sweep:
        for name in ("val/validation", "test/test"):
            found, expected = soup["figures"][str(run.path)], evaluation(run)["sets"][name]["metrics"]
            assert found[f"{name}/accuracy"] == pytest.approx(expected["accuracy"])
            assert found[f"{name}/loss"] == pytest.approx(expected["loss"], rel=rounding(1e-5, 1e-2))
    assert set(soup["figures"]) == {*(str(run.path) for run in sweep), "uniform", "greedy", "ensemble"}
    plain = average([str(run.path) for run in sweep], tmp_path / "plain")
    every = [weights(run.path / "model") for run in sweep]
    for name, tensor in weights(uniform).items():
        expected = torch.stack([one[name] for one in every]).double().mean(0)
        torch.testing.assert_close(tensor.double(), expected, atol=1e-6, rtol=1e-5)
        assert torch.equal(tensor, weights(plain)[name])
    measured = evaluate(str(uniform), {"test": json_source(sweep[0], "test")}).content["sets"]["test"]
    assert measured["metrics"]["accuracy"] == pytest.approx(soup["figures"]["uniform"]["test/test/accuracy"])


def json_source(run: Run, part: str) -> str:
    from tiryns.runner.opened_run import open_run

    return str(open_run(run.path).config.data[part])


@pytest.mark.slow
def test_greedy_soup_takes_in_what_does_not_fall_on_validation(sweep: list[Run], tmp_path: Path) -> None:
    from tiryns.runner.checkpoints.averages import read_folder

    members = [read_folder(run.path / "model") for run in sweep]
    scores = {(0,): 0.5, (1,): 0.7, (2,): 0.6, (1, 2): 0.69, (0, 1): 0.7, (0, 1, 2): 0.9}
    asked: list[tuple[int, ...]] = []

    class Scored(soups._Measuring):
        def figures(self, soups: Any) -> dict[str, float]:
            key = tuple(soups[0])
            asked.append(key)
            self.outputs = set[str]()
            return {self.monitor: scores[key]}

    measuring = Scored([None] * 3, members, {"val/validation": None})
    figures, greedy = measuring.measure()
    assert (measuring.monitor, greedy) == ("val/validation/accuracy", [0, 1])
    assert figures["greedy"] == {measuring.monitor: 0.7}
    assert asked == [(0,), (1,), (2,), (1, 2), (0, 1), (0, 1, 2)], "the last one is the uniform soup"


@pytest.mark.slow
def test_ensemble_predicts_by_the_mean_of_all_logits(sweep: list[Run], tmp_path: Path) -> None:
    soup = average([str(run.path) for run in sweep], tmp_path / "soup", soup="uniform")
    figures = json.loads((soup / "average.json").read_text())["soup"]["figures"]
    rows = [json.loads(line) for line in Path(json_source(sweep[0], "test")).read_text().splitlines()]
    logits = []
    for run in sweep:
        model = AutoModelForSequenceClassification.from_pretrained(run.path / "model").eval()
        tokenizer = AutoTokenizer.from_pretrained(run.path / "model")
        with torch.no_grad():
            batch = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
            logits.append(model(**batch).logits)
    predicted = torch.stack(logits).mean(0).argmax(-1).tolist()
    right = sum(model.config.id2label[p] == row["label"] for p, row in zip(predicted, rows, strict=True))
    assert figures["ensemble"]["test/test/accuracy"] == pytest.approx(
        right / len(rows), abs=rounding(1e-6, 0.1)
    )


def test_each_run_is_measured_by_its_own_objective_and_no_loss_is_of_an_ensemble(
    task_files: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soups, "model_to_measure", loads := Mock(wraps=model_to_measure))
    short = ["trainer.max_steps=2", "trainer.validate_every=2"]
    run = finetuning(tmp_path, task_files)("joint_tagging", *short)
    shutil.copytree(run.path, tmp_path / "weighted")  # as if trained with these weights
    task = json.loads((tmp_path / "weighted" / "model" / "task.json").read_text())
    task["objective"]["column_weights"] = {"kind": 4}
    (tmp_path / "weighted" / "model" / "task.json").write_text(json.dumps(task))
    soup = average([str(run.path), str(tmp_path / "weighted")], tmp_path / "soup", soup="uniform")
    figures = json.loads((soup / "average.json").read_text())["soup"]["figures"]
    loaded = [call.args[0] for call in loads.call_args_list]
    assert loaded == [str(run.path), str(tmp_path / "weighted"), str(run.path)], "once for all soups"
    expected, found = figures[str(run.path)], figures[str(tmp_path / "weighted")]
    assert found["test/test/loss_kind"] == expected["test/test/loss_kind"]
    more = 3 * expected["test/test/loss_kind"]
    assert found["test/test/loss"] == pytest.approx(expected["test/test/loss"] + more)
    assert "test/test/accuracy_kind" in figures["ensemble"]
    assert not [name for name in figures["ensemble"] if "loss" in name]


def test_what_cannot_be_measured_is_one_line(sweep: list[Run], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"leave out --weights and --ties"):
        average([str(run.path) for run in sweep], tmp_path / "a", weights="1,2,3", soup="greedy")
    with pytest.raises(ValueError, match=r"--soup measures the models of finished runs"):
        average([f"{run.path}@4" for run in sweep], tmp_path / "b", soup="greedy")
    config = (
        (sweep[1].path / "config.yaml")
        .read_text()
        .replace("micro_batch_tokens: 400", "micro_batch_tokens: 300")
    )
    (sweep[1].path / "config.yaml").write_text(config.replace("max_length: 48", "max_length: 40"))
    with pytest.raises(ValueError, match=r"one validation set, but data\.max_length is 48 in .* and 40 in"):
        average([str(run.path) for run in sweep], tmp_path / "c", soup="greedy")
    status = json.loads((sweep[2].path / "status.json").read_text())
    (sweep[2].path / "status.json").write_text(json.dumps({**status, "state": "failed"}))
    with pytest.raises(ValueError, match=r"of the sweep is failed: finish it with resume="):
        average([str(sweep[0].path.parent)], tmp_path / "d")
