"""Exported folders know how long a text the model can read."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoProcessor, AutoTokenizer
from transformers.utils import logging as transformers_logging

from tests.models.every_encoder import tiny_model
from tests.objectives.samples import VOCABULARY
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.data.text.vocabulary import describe_vocabulary
from tiryns.runner.data.vision.processors import make_processor, train_conversation_tokenizer
from tiryns.runner.inference.card import model_card
from tiryns.runner.inference.export import check_export, write_model
from tiryns.runner.models.positions import longest_text
from tiryns.runner.run.folder import Run

TEXTS = ["a heron stands by the old river", "nobody speaks of winter"] * 9


def exported(model: Any, preprocessor: Any, folder: Path) -> Path:
    return write_model(SimpleNamespace(pretrained=model), preprocessor, folder / "model", "card", None, {})


def test_writing_draws_no_bar(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    set_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.enable_progress_bar()
    try:
        exported(tiny_model("bert", "mlm"), None, tmp_path)
        assert transformers_logging.is_progress_bar_enabled()
    finally:
        if not set_bars:
            transformers_logging.disable_progress_bar()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("architecture", "longest", "more_fit"),
    [
        ("bert", 80, False),
        ("roberta", 79, False),
        ("xlm-roberta", 79, False),
        ("mpnet", 78, False),
        ("bart", 80, False),
        ("modernbert", 80, True),
    ],
)
def test_longest_text_is_what_the_model_can_read(architecture: str, longest: int, more_fit: bool) -> None:
    model = tiny_model(architecture, "mlm").eval()
    assert longest_text(model) == longest
    model(input_ids=torch.randint(5, VOCABULARY, (1, longest)))
    if not more_fit:
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.randint(5, VOCABULARY, (1, longest + 1)))


@pytest.mark.parametrize(
    ("task", "label"), [("classification", "label"), ("token_classification", "entity"), ("mlm", "token_str")]
)
def test_the_use_block_of_a_card_makes_a_prediction(task: str, label: str, tmp_path: Path) -> None:
    (tmp_path / "command.txt").write_text("tiryns")
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    tokenizer, pretrained = train_tokenizer(TEXTS, "wordpiece", 120, True), tiny_model("bert", task)
    model: Any = SimpleNamespace(pretrained=pretrained, describe=lambda: "of 2 layers")
    card = model_card(model, tokenizer, Run(tmp_path), {}, 1)
    assert "<summary>Config</summary>\n\n```yaml\nseed: 1\n```" in card
    folder = exported(pretrained, tokenizer, tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    shown: list[Any] = []
    long_text = "where is the old river " * 100
    for text in ("a text", long_text):
        names = {"print": shown.append}
        exec(code.replace("<this folder>", str(folder)).replace("a text", text), names)
    assert all(label in found[0] for found in shown)


def test_a_tokenizer_that_knows_a_closer_bound_keeps_it(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXTS, kind="wordpiece", vocab_size=120, lowercase=True)
    tokenizer.model_max_length = 64
    folder = exported(tiny_model("bert", "mlm"), tokenizer, tmp_path)
    assert AutoTokenizer.from_pretrained(folder).model_max_length == 64


def test_the_tokenizer_of_a_processor_knows_it_as_well(tmp_path: Path) -> None:
    tokenizer = train_conversation_tokenizer(TEXTS, kind="wordpiece", vocab_size=120, lowercase=True)
    vision = make_processor("llava", tokenizer, image_size=16, image_places=4)
    folder = exported(tiny_model("llama", "classification"), vision.processor, tmp_path)
    assert AutoProcessor.from_pretrained(folder).tokenizer.model_max_length == 80


def test_a_tokenizer_that_adds_no_special_tokens_is_said() -> None:
    tokenizer = train_tokenizer(TEXTS, kind="bpe", vocab_size=300, lowercase=True)
    assert describe_vocabulary(tokenizer) == f"{len(tokenizer)} tokens"
    tokenizer.backend_tokenizer.post_processor = None
    assert "adds no special tokens" in describe_vocabulary(tokenizer)
    assert tokenizer("a heron").input_ids == tokenizer("a heron", add_special_tokens=False).input_ids


class Unsavable:
    def save_pretrained(self, folder: str) -> None:
        raise TypeError("Object of type set is not JSON serializable\nmore")


@pytest.mark.parametrize("part", ["settings", "config", "tokenizer", "folder"])
def test_what_cannot_be_exported_is_told_before_training(tmp_path: Path, part: str) -> None:
    model = tiny_model("bert", "mlm")
    tokenizer = train_tokenizer(TEXTS, "wordpiece", 200, lowercase=True)
    module: Any = SimpleNamespace(model=SimpleNamespace(pretrained=model))
    folder = Run(tmp_path)
    check_export(module, tokenizer, folder, {"data": 1})
    assert list(tmp_path.iterdir()) == []
    if part == "settings":
        message = "settings of the task cannot be saved with the trained model: Object"
        with pytest.raises(ValueError, match=message):
            check_export(module, tokenizer, folder, {"data": {1, 2}})
    elif part == "config":
        model.config.torch_thing = object()
        with pytest.raises(ValueError, match="the model's config cannot be saved with the trained model"):
            check_export(module, tokenizer, folder, {})
    elif part == "tokenizer":
        with pytest.raises(
            ValueError, match=r"the tokenizer cannot be saved .*: Object of type set is not JSON"
        ) as error:
            check_export(module, Unsavable(), folder, {})
        assert "more" not in str(error.value)
    else:
        with pytest.raises(OSError, match="cannot export to"):
            check_export(module, tokenizer, Run(tmp_path / "none"), {})
