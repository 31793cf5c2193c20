"""Weights fit, or it is an error: prefixes of wrappers come off, new heads are said, and nothing else is let pass."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, PreTrainedModel

from tests.models.every_encoder import ENCODERS, HEADS, tasks_of, tiny_model
from tiryns.runner.models.encoder import load_encoder
from tiryns.runner.models.head import MASKED_LM, Head
from tiryns.runner.models.weights import load_trained

CLASSES = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
Names = Callable[[str], str]


def saved(folder: Path, task: str = "mlm", **options: Any) -> PreTrainedModel:
    """A tiny BERT, saved."""
    model = tiny_model("bert", task)
    model.save_pretrained(folder, **options)
    return model


def rename(folder: Path, names: Names) -> None:
    file = folder / "model.safetensors"
    save_file(
        {names(name): tensor for name, tensor in load_file(file).items()}, file, metadata={"format": "pt"}
    )


def same_body(one: PreTrainedModel, other: PreTrainedModel) -> bool:
    theirs = other.base_model.state_dict()
    body = [(name, tensor) for name, tensor in one.base_model.state_dict().items() if name in theirs]
    return bool(body) and all(torch.equal(tensor, theirs[name]) for name, tensor in body)


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    "names",
    [
        lambda n: f"module.{n}",
        lambda n: f"_orig_mod.{n}",
        lambda n: f"module._orig_mod.{n}",
        lambda n: "_orig_mod.module." + n.replace("encoder.", "encoder._orig_mod."),
        lambda n: n.replace("layer.1.", "layer.1.module."),
        lambda n: "module." + n.removeprefix("bert."),
    ],
)
def test_prefixes_of_wrappers_are_taken_off(
    names: Names, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tiryns")
    model = saved(tmp_path)
    rename(tmp_path, names)
    loaded = load_encoder(str(tmp_path), {}, None, new_vocabulary=False)
    assert all(torch.equal(t, model.state_dict()[n]) for n, t in loaded.state_dict().items())
    assert sum("module. or _orig_mod." in line for line in caplog.messages) == 1


def test_new_head_is_the_same_with_prefixes_and_without(tmp_path: Path) -> None:
    made = []
    for folder in (tmp_path / "plain", tmp_path / "wrapped"):
        torch.manual_seed(1)
        saved(folder)
        if folder.name == "wrapped":
            rename(folder, lambda name: f"module.{name}")
        torch.manual_seed(7)
        made.append(
            load_encoder(
                str(folder), {}, None, Head(AutoModelForSequenceClassification, CLASSES), new_vocabulary=False
            )
        )
    assert made[0].state_dict().keys() == made[1].state_dict().keys()
    assert all(torch.equal(t, made[1].state_dict()[name]) for name, t in made[0].state_dict().items())


def without(*starts: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "model.safetensors"
        kept = {n: t for n, t in load_file(file).items() if not n.startswith(starts)}
        save_file(kept, file, metadata={"format": "pt"})

    return change


def cut(share: float) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "model.safetensors"
        data = file.read_bytes()
        file.write_bytes(data[: int(len(data) * share)])

    return change


def config(**fields: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return change


def foreign_bin(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"net.0.weight": torch.zeros(2, 2)}, folder / "pytorch_model.bin")


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: rename(f, lambda n: n.replace("encoder.", "coder.")), r"32 are missing \(bert\.encoder\.layer\.0"),
        (without("bert.encoder.layer.1."), r"16 are missing \(bert\.encoder\.layer\.1\.attention.*, \.\.\.\)"),
        (without("bert.embeddings.LayerNorm.bias"), r"1 are missing \(bert\.embeddings\.LayerNorm\.bias\)"),
        (config(num_hidden_layers=1), r"16 are not known to the model \(bert\.encoder\.layer\.1"),
        (config(intermediate_size=40), r"6 have another shape \(.*dense\.bias is 48 there, 40 in the model"),
        (config(hidden_size="wide"), "cannot load the model"),
        (config(hidden_size=[32]), "cannot load the model"),
        (lambda f: (f / "config.json").write_text("{"), "cannot load the model"),
        (lambda f: (f / "config.json").write_text("[]"), "cannot load the model"),
        (cut(0.5), "cannot load the model"),
        (cut(0), "cannot load the model"),
        (foreign_bin, r"are missing \(bert\.embeddings"),
        (lambda f: rename(f, lambda n: "x" + n), "are missing"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(damage: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    saved(tmp_path)
    load_encoder(str(tmp_path), {}, None, new_vocabulary=False)
    damage(tmp_path)
    with pytest.raises(ValueError, match=message) as error:
        load_encoder(str(tmp_path), {}, None, new_vocabulary=False)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize("options", [{}, {"max_shard_size": "20KB"}])
def test_new_head_for_a_new_task_is_said(
    options: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tiryns")
    model = saved(tmp_path, **options)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == bool(options)
    assert same_body(load_encoder(str(tmp_path), {}, None, new_vocabulary=False), model)
    assert not caplog.messages, "nothing is new"
    head = Head(AutoModelForSequenceClassification, CLASSES)
    assert same_body(load_encoder(str(tmp_path), {}, None, head, new_vocabulary=False), model)
    assert caplog.messages == ["starting anew: bert.pooler.dense, classifier"]


@pytest.mark.parametrize(
    ("head", "new"),
    [(MASKED_LM, "cls.predictions"), (Head(HEADS["token_classification"][0], CLASSES), "classifier")],
)
def test_head_of_another_task_gives_way(
    head: Head, new: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tiryns")
    model = saved(tmp_path, "classification")
    assert same_body(load_encoder(str(tmp_path), {}, None, head, new_vocabulary=False), model)
    (line,) = caplog.messages
    assert line.startswith(f"starting anew: {new}")


def test_a_model_without_its_head_does_not_predict(tmp_path: Path) -> None:
    saved(tmp_path, "classification")
    assert load_trained(AutoModelForSequenceClassification, str(tmp_path)).num_labels == 2
    without("classifier.")(tmp_path)
    with pytest.raises(ValueError, match=r"2 are missing \(classifier\.bias, classifier\.weight\)"):
        load_trained(AutoModelForSequenceClassification, str(tmp_path))


@pytest.mark.rows(3)
@pytest.mark.parametrize("architecture", ENCODERS)
def test_every_encoder_is_loaded_as_it_was_saved(
    architecture: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = tiny_model(architecture, "mlm")
    model.save_pretrained(tmp_path)
    caplog.set_level(logging.INFO, "tiryns")
    loaded = load_trained(AutoModelForMaskedLM, str(tmp_path))
    ours, theirs = loaded.state_dict(), model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    assert not [record for record in caplog.records if record.name == "tiryns"]
    if "classification" in tasks_of(architecture):
        head = Head(AutoModelForSequenceClassification, CLASSES)
        assert same_body(load_encoder(str(tmp_path), {}, None, head, new_vocabulary=False), model)
