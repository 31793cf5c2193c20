"""Finetuning as a user runs it: metrics, best weights, predictions, resume, ranks, and from a pretraining run."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from tests.conftest import Command
from tests.data.labelled.tasks import questions, sentences, texts
from tests.data.pairs.rows import write
from tests.modules.conftest import NEW, TINY, Finetune
from tests.optim.tiny import averages_of_splus
from tests.runs.test_train import rows as rows_of
from tests.support.precision import rounding
from tiryns.runner.run.folder import Run


def predictions(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]


def evaluation(run: Run) -> dict[str, Any]:
    return json.loads((run.path / "evaluation.json").read_text())


def validations(run: Run) -> list[dict[str, str]]:
    return [row for row in rows_of(run) if row["val/validation/loss"]]


def weights(run: Run, name: str, average: bool = False) -> dict[str, torch.Tensor]:
    saved = torch.load(run.checkpoint_dir / name, weights_only=True)
    return averages_of_splus(saved["optimizer_states"][0], 0.5) if average else saved["state_dict"]


def test_classification_leaves_metrics_predictions_and_a_model_with_its_labels(finished: Finetune) -> None:
    from transformers import pipeline

    run = finished("classification")
    lines, results = predictions(run), evaluation(run)
    assert [line["set"] for line in lines] == ["val/validation"] * 23 + ["test/test"] * 17
    rows = texts(17, 2)
    assert [(line["text"], line["gold"]) for line in lines[23:]] == [
        (row["text"], row["label"]) for row in rows
    ]
    right = sum(line["gold"] == line["predicted"] for line in lines[23:])
    test = results["sets"]["test/test"]
    assert test["metrics"]["accuracy"] == pytest.approx(right / 17)
    assert test["labels"] == ["birds", "none", "stones"]
    assert [sum(row) for row in test["confusion"]] == [row["support"] for row in test["per_class"]]
    assert sum(row[i] for i, row in enumerate(test["confusion"])) == right
    model = str(run.path / "model")
    found = pipeline("text-classification", model=model, tokenizer=model)([line["text"] for line in lines])
    for line, theirs in zip(lines, found, strict=True):
        assert line["predicted"] == theirs["label"]
        assert line["probability"] == pytest.approx(theirs["score"], abs=rounding(1e-4, 5e-3))


@pytest.mark.slow
def test_what_cannot_be_monitored_is_said_before_training(finetune: Finetune, tmp_path: Path) -> None:
    for setting in ("checkpoint", "callback.early_stopping"):
        words = ["callback=[default,early_stopping]", f"{setting}.monitor=val/validation/acuracy"]
        with pytest.raises(
            ValueError, match=r"acuracy cannot be .*macro_f1, .*mean 'val/validation/accuracy'"
        ):
            finetune("classification", *words)
    rows = [{**row, "labels": [label[:1].lower() * 2 for label in row["labels"]]} for row in sentences(40)]
    path = write(tmp_path / "rows.jsonl", rows)
    words = [f"data.train={path}", f"data.validation={path}", "data.test=null"]
    with pytest.raises(
        ValueError, match=r"entity_f1 cannot be monitored: .* there are: val/validation/accuracy, val/valid"
    ):
        finetune("token_classification", *words, "checkpoint.monitor=val/validation/entity_f1")
    assert not list(tmp_path.glob("*/checkpoints/*")), "nothing was trained"


LABELS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "accuracy": lambda row: row["text"].count("herons") % 2,
    "micro_f1": lambda row: row["text"].split()[:2],
    "spearman": lambda row: float(row["text"].count("herons")),  # 0.0 and 1.0 as well as fractions
}


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("metric", LABELS)
def test_monitored_figure_follows_from_the_labels(finetune: Finetune, tmp_path: Path, metric: str) -> None:
    rows = [{**row, "label": LABELS[metric](row)} for row in texts(60)]
    path = write(tmp_path / "rows.jsonl", rows)
    stopping = ["callback=[default,early_stopping]", "optimizer.lr=0.003"]
    files = [f"data.train={path}", f"data.validation={path}", "data.test=null"]
    run = finetune("classification", *files, *stopping)
    status = run.status
    assert (status["monitor"], status["mode"]) == (f"val/validation/{metric}", "max")
    found = [float(row[f"val/validation/{metric}"]) for row in validations(run)]
    assert status["results"]["objective"] == max(found)
    known = evaluation(run)["sets"]["val/validation"]["metrics"]
    assert known.keys() == {name.split("/")[-1] for name in validations(run)[0] if name.startswith("val/")}
    assert len(predictions(run)) == 60
    if metric == "spearman":
        labels = [row["label"] for row in rows]
        assert status["results"]["val/validation/constant_mse"] == pytest.approx(np.var(labels))
    first, *_, last = (float(row["val/validation/loss"]) for row in validations(run))
    assert last < first


@pytest.mark.rows(1)
@pytest.mark.parametrize("average", [False, True])
def test_best_weights_are_tested_and_exported(
    finetune: Finetune, average: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    largest = ["checkpoint.monitor=val/validation/loss", "checkpoint.mode=max"]  # which is the first one
    largest += ["optimizer=splus", "optimizer.lr=0.5", "optimizer.ema_rate=0.5"] if average else []
    run = finetune("classification", *largest)
    first, second = (float(row["val/validation/loss"]) for row in validations(run))
    assert first > second
    results = run.status["results"]
    assert (evaluation(run)["step"], results["best_step"]) == (4, 4.0)
    told = re.findall(r"^(.*?) (val|test)/", capsys.readouterr().out, re.MULTILINE)
    tested = [("best weights, of step 4:", part) for part in ("val", "test")]
    assert told[:4] == [("step 4", "val"), ("step 8", "val"), *tested]
    assert results["val/validation/loss"] == pytest.approx(first, rel=1e-6)
    exported = AutoModelForSequenceClassification.from_pretrained(run.path / "model").state_dict()
    best, last = weights(run, "best.ckpt", average), weights(run, "last.ckpt", average)
    name = "classifier.weight"
    assert torch.equal(exported[name], best[f"model.pretrained.{name}"])
    assert not torch.equal(exported[name], last[f"model.pretrained.{name}"])
    last_ones = finetune("classification", *largest, "module.load_best=false", folder="last")
    assert evaluation(last_ones)["step"] == 8


def test_resume_with_other_labels_is_refused(finetune: Finetune, finished: Finetune, tmp_path: Path) -> None:
    shutil.copytree(finished("classification").path, tmp_path / "run", symlinks=True)
    other = {"birds": "none", "none": "birds"}
    rows = [{**row, "label": other.get(row["label"], row["label"])} for row in texts(60, 0)]
    renamed = write(tmp_path / "renamed.jsonl", rows)
    with pytest.raises(ValueError, match="belongs to another sample order: data was"):
        finetune("classification", f"data.train={renamed}", "data.validation=null", "data.test=null")


def test_early_stopping_ends_the_run_and_keeps_the_best(finetune: Finetune) -> None:
    run = finetune(
        "classification", "callback=[default,early_stopping]", "callback.early_stopping.patience=2",
        "optimizer.lr=0", "trainer.max_steps=50", "trainer.validate_every=3", "data.test=null",
    )  # fmt: skip
    assert [row["step"] for row in validations(run)] == ["3", "6", "9"]
    assert json.loads((run.path / "status.json").read_text())["step"] == 9
    assert evaluation(run)["step"] == 3


def test_finetuning_starts_from_a_pretraining_run(
    run_here: Callable[..., Run], finetune: Finetune, caplog: pytest.LogCaptureFixture
) -> None:
    first = run_here("trainer.max_steps=2", "trainer.validate_every=0", folder="first")
    with caplog.at_level("INFO"):
        second = finetune("classification", "trainer.max_steps=1", "optimizer.lr=0", start=first)
    assert "starting anew: bert.pooler.dense, classifier" in caplog.text
    ours, theirs = weights(second, "last.ckpt"), weights(first, "last.ckpt")
    shared = [name for name in ours if ".encoder." in name or ".embeddings." in name]
    assert shared
    assert all(torch.equal(ours[name], theirs[name]) for name in shared)
    tokenizers = [json.loads((run.path / "model/tokenizer.json").read_text()) for run in (first, second)]
    assert tokenizers[0]["model"] == tokenizers[1]["model"]


@pytest.mark.slow
def test_finetuning_starts_from_a_detector_of_replaced_tokens(
    run_here: Callable[..., Run], finetune: Finetune
) -> None:
    words = [
        "objective=rtd", "objective.generator_size=0.5", "trainer.max_steps=2", "trainer.validate_every=0",
    ]  # fmt: skip
    first = run_here(*words, folder="first")
    assert finetune("classification", "trainer.max_steps=1", start=first).status["state"] == "done"


@pytest.mark.slow
def test_model_trained_for_other_labels_is_refused_or_given_a_new_head(
    finetune: Finetune, tmp_path: Path
) -> None:
    short = ["trainer.max_steps=1", "trainer.validate_every=0", "data.test=null"]
    first = finetune("classification", *short)
    name = "model.pretrained.classifier.weight"
    again = finetune("classification", "optimizer.lr=0", *short, folder="again", start=first)
    assert torch.equal(weights(again, "last.ckpt")[name], weights(first, "last.ckpt")[name])
    rows = [{**row, "label": "birds" if row["label"] == "birds" else "other"} for row in texts(60, 0)]
    two = write(tmp_path / "two.jsonl", rows)
    other = [f"data.train={two}", "data.validation=null", *short]
    with pytest.raises(ValueError, match=r"has a head for 3 labels \(birds, none, stones\), the data has 2"):
        finetune("classification", *other, folder="other", start=first)
    fresh = finetune("classification", *other, "objective.new_head=true", folder="new", start=first)
    assert weights(fresh, "last.ckpt")[name].shape[0] == 2


@pytest.mark.slow
def test_two_processes_evaluate_as_one(
    finetune: Finetune, tiryns: Command, tmp_path: Path, task_files: dict[str, list[str]]
) -> None:
    single = write(tmp_path / "single.jsonl", questions(1, 5)[:1])  # of which one of two ranks has no share
    files = dict(word.split("=") for word in task_files["question_answering"])
    sets = f"data.validation={{validation:{files['data.validation']},single:{single}}}"
    evaluate = [sets, "trainer.max_steps=1", "trainer.validate_every=1", "optimizer.lr=0"]
    one = finetune("question_answering", *evaluate)
    tiryns(*task_files["question_answering"], *TINY, *NEW, *evaluate, "trainer.devices=2")
    two = Run(next((tmp_path / "outputs").glob("*/*")))
    assert predictions(one) == predictions(two)
    assert len(predictions(one)) == 23 + 1 + 17
    for name, found in evaluation(one)["sets"].items():
        for metric, value in evaluation(two)["sets"][name]["metrics"].items():
            near = 1e-6 if metric == "loss" else 0
            assert value == pytest.approx(found["metrics"][metric], rel=near, abs=0), metric
