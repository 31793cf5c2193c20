"""Exported models bring their code: transformers alone opens them, and here they need no trust."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM

from tests.models.every_encoder import HEADS, tiny_model
from tests.models.tiny import OWN
from tests.support.processes import Done, process, warm_process
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.inference.card import model_card
from tiryns.runner.inference.export import write_model
from tiryns.runner.models.encoder import load_encoder
from tiryns.runner.models.weights import load_trained
from tiryns.runner.opened_run import OpenedRun
from tiryns.runner.run.folder import Run

pytestmark = pytest.mark.fp32  # another process computes in fp32

IDS = torch.arange(5, 17)[None]

ALONE = """
import sys
for name in [name for name in sys.modules if name.partition(".")[0] == "tiryns"]:
    del sys.modules[name]
sys.modules["tiryns"] = None  # as if it were not installed
import json, torch, transformers
for kind, folder in json.loads(sys.argv[1]):
    auto = getattr(transformers, kind)
    model = auto.from_pretrained(folder, trust_remote_code=True).eval()
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    torch.save(model(torch.arange(5, 17)[None])[0], folder + "/found.pt")
    if kind == "AutoModelForMaskedLM":  # a head for another task on the same encoder
        model.save_pretrained(folder + "/again")
        other = transformers.AutoModelForTokenClassification.from_pretrained(folder + "/again", trust_remote_code=True)
        name = "layers.0.attn.Wo.weight"
        assert torch.equal(other.model.get_parameter(name), model.model.get_parameter(name))
"""


def written(model: Any, folder: Path) -> Path:
    tokenizer = train_tokenizer(
        ["a heron stands by the old river"], kind="wordpiece", vocab_size=80, lowercase=True
    )
    return write_model(SimpleNamespace(pretrained=model), tokenizer, folder, "card", None, {})


@pytest.mark.rows(1)
@pytest.mark.parametrize("started", [warm_process, process])
def test_transformers_alone_opens_them(started: Callable[..., Done], tmp_path: Path) -> None:
    folders, expected = [], []
    for architecture in OWN:
        for task in ("mlm", "classification"):
            model = tiny_model(architecture, task).eval()
            made = written(model, tmp_path / f"{architecture}-{task}")
            folders.append((HEADS[task][0].__name__, str(made)))
            expected.append(model(IDS)[0])
    done = started("-c", ALONE, json.dumps(folders), cwd=tmp_path, HF_HOME=str(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    for (_, folder), logits in zip(folders, expected, strict=True):
        torch.testing.assert_close(torch.load(folder + "/found.pt"), logits, msg=folder)


@pytest.mark.parametrize("architecture", OWN)
def test_their_own_code_is_not_run_here(architecture: str, tmp_path: Path) -> None:
    model = tiny_model(architecture, "mlm").eval()
    folder = written(model, tmp_path / "model")
    for file in folder.glob("*.py"):
        file.write_text("raise AssertionError('code of the folder is run')")
    for loaded in (
        load_trained(AutoModelForMaskedLM, str(folder)),
        load_encoder(str(folder), {}, None, new_vocabulary=False).eval(),
        OpenedRun(tmp_path).model(),
    ):
        assert type(loaded) is type(model)
        assert torch.equal(loaded(IDS).logits, model(IDS).logits)


def test_the_card_says_how_they_are_opened(tmp_path: Path) -> None:
    run = Run(tmp_path)
    (tmp_path / "command.txt").write_text("tiryns")
    (tmp_path / "config.yaml").write_text("seed: 0\n")
    for architecture, usage in (
        ("gpt_bert", 'AutoModelForMaskedLM.from_pretrained("<this folder>", trust_remote_code=True)'),
        ("bert", 'BertForMaskedLM.from_pretrained("<this folder>")'),
    ):
        model = SimpleNamespace(pretrained=tiny_model(architecture, "mlm"), describe=lambda: "tiny")
        card = model_card(model, None, run, {}, 1)
        assert f"model = {usage}\n" in card
        assert f", {usage.partition('.')[0]}\n" in card, "it is imported"
