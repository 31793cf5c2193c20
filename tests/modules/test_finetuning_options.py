"""Options of finetuning as a user runs them: thresholds, frozen layers, noise, and all of them after a stop."""

import json
import re
from pathlib import Path

import pytest
import torch

from tests.data.labelled.tasks import texts
from tests.data.pairs.rows import write
from tests.modules.conftest import Finetune
from tests.modules.test_finetuning import evaluation, predictions, weights
from tests.runs.test_train import continued, losses
from tiryns.runner.cli.models.consolidate import consolidate
from tiryns.runner.modules.finetuning import FinetuningRun, freeze_parameters
from tiryns.runner.opened_run import open_run

LOSSES = [
    "objective.class_weights=balanced", "objective.label_smoothing=0.1", "objective.focal_gamma=1",
    "objective.r_drop=0.5", "module.neftune_alpha=5", "model.dropout=0.1",
]  # fmt: skip


LABELS = ("herons", "bridge", "winter")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of texts with several labels, of which one is rare."""
    folder, found = tmp_path_factory.mktemp("several"), []
    for seed, (part, count) in enumerate({"train": 60, "validation": 40, "test": 20}.items()):
        rows = [
            {**row, "label": [w for w in LABELS if row["text"].split().count(w) > (w == "winter")]}
            for row in texts(count, seed)
        ]
        found.append(f"data.{part}={write(folder / f'{part}.jsonl', rows)}")
    return found


@pytest.mark.rows(1)
@pytest.mark.parametrize("mode", ["per_label", "global"])
def test_thresholds_are_chosen_on_validation_and_used_ever_after(
    finished: Finetune, several: list[str], mode: str, tmp_path: Path
) -> None:
    run = finished("classification", *several, f"objective.thresholds={mode}", "trainer.max_steps=12")
    saved = json.loads((run.path / "model/task.json").read_text())["objective"]["thresholds"]
    sets = evaluation(run)["sets"]
    names = [row["label"] for row in sets["test/test"]["per_class"]]
    values = dict.fromkeys(names, saved) if mode == "global" else saved
    assert {row["label"]: row["threshold"] for row in sets["val/validation"]["per_class"]} == values
    assert {row["label"]: row["threshold"] for row in sets["test/test"]["per_class"]} == values
    assert any(value != 0.5 for value in values.values())
    tested = [line for line in predictions(run) if line["set"] == "test/test"]
    for line in tested:
        written = zip(line["predicted"], line["probability"], strict=True)  # with six digits
        assert all(p > values[n] - 1e-6 for n, p in written)
    again = open_run(run.path).predict([line["text"] for line in tested])
    assert [line["predicted"] for line in again] == [line["predicted"] for line in tested]
    usual = finished("classification", *several, "trainer.max_steps=12")
    figure = "macro_f1" if mode == "per_label" else "micro_f1"
    of_usual = evaluation(usual)["sets"]["val/validation"]["metrics"][figure]
    assert sets["val/validation"]["metrics"][figure] > of_usual
    assert "thresholds" not in json.loads((usual.path / "model/task.json").read_text())["objective"]
    assert "threshold" in (run.path / "report.html").read_text()
    made = consolidate(run.checkpoint_dir / "best.ckpt", tmp_path / "made")
    assert json.loads((made / "task.json").read_text())["objective"]["thresholds"] == pytest.approx(saved)


def test_an_evaluation_of_the_run_has_its_figures(finished: Finetune, several: list[str]) -> None:
    from tiryns.runner.inference.evaluated import evaluate

    run = finished("classification", *several, "objective.thresholds=per_label", "trainer.max_steps=12")
    found = evaluate(str(run.path), {"test": several[2].partition("=")[2]})
    assert found.content["sets"]["test"]["metrics"] == pytest.approx(
        evaluation(run)["sets"]["test/test"]["metrics"], rel=1e-5
    )


def test_thresholds_need_a_validation_set(finetune: Finetune, several: list[str]) -> None:
    words = [several[0], "data.validation=null", "data.test=null", "objective.thresholds=global"]
    with pytest.raises(
        ValueError, match=r"objective\.thresholds is chosen on a validation set, and there is none"
    ):
        finetune("classification", *words)
    with pytest.raises(ValueError, match=r"objective\.thresholds is chosen by a validation: set trainer"):
        finetune("classification", *several, "objective.thresholds=global", "trainer.validate_every=0")


def test_frozen_layers_have_no_gradient_no_state_and_keep_their_weights(finetune: Finetune) -> None:
    run = finetune(
        "classification", "module.freeze_layers=1", "module.freeze=['*pooler*','re:layer\\.1\\.output']",
        "optimizer.weight_decay=0.1", "checkpoint.every_steps=1", "checkpoint.keep_last=9", "trainer.max_steps=2",
    )  # fmt: skip
    first, last = weights(run, "step-00000001.ckpt"), weights(run, "step-00000002.ckpt")
    frozen = [name for name in first if re.search(r"embeddings|layer\.0|pooler|layer\.1\.output", name)]
    assert len(frozen) > 10
    for name in first:
        assert torch.equal(first[name], last[name]) == (name in frozen), name
    saved = torch.load(run.checkpoint_dir / "step-00000002.ckpt", weights_only=True)["optimizer_states"][0]
    names = {name for group in saved["param_groups"] for name in group["param_names"]}
    assert names == {
        name.removeprefix("model.") for name in first if name not in frozen and "position_ids" not in name
    }
    assert len(saved["state"]) == len(names)


def test_more_layers_than_there_are_and_patterns_of_none_are_one_line(finetune: Finetune) -> None:
    message = (
        r"module\.freeze_layers=3: the model has 2 layers; the embeddings and at most 2 layers can be frozen"
    )
    with pytest.raises(ValueError, match=message):
        finetune("classification", "module.freeze_layers=3")
    with pytest.raises(
        ValueError, match=r"module\.freeze: the pattern '\*\.layers\.0\.\*' matches no parameter"
    ):
        finetune("classification", "module.freeze=['*.layers.0.*']", folder="other")


def test_example_in_the_docstring_freezes_the_embeddings() -> None:
    pattern = str(FinetuningRun.__doc__).partition("module.freeze=[")[2].partition("]")[0]
    model = torch.nn.ModuleDict({"embeddings": torch.nn.Embedding(2, 2), "head": torch.nn.Linear(2, 2)})
    freeze_parameters(model, [pattern])
    assert [p.requires_grad for p in model.parameters()] == [False, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_all_options_at_once_resume_bitwise(finetune: Finetune, layout: str) -> None:
    settings = [*LOSSES, f"data.layout={layout}", "checkpoint.every_steps=3", "checkpoint.keep_last=9"]
    whole = finetune("classification", *settings)
    continued(whole, 3, "resumed")
    resumed = finetune("classification", *settings, folder="resumed")
    last = "step-00000008.ckpt"
    assert all(torch.equal(w, weights(resumed, last)[name]) for name, w in weights(whole, last).items())
    assert predictions(whole) == predictions(resumed)
    quiet = finetune(
        "classification", *settings, "module.neftune_alpha=0", "trainer.max_steps=1", folder="quiet"
    )
    assert losses(quiet)[1] != losses(whole)[1]
