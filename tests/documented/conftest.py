"""A tokenizer, a text, a small model and a silent Trainer for the documented Lightning classes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
import transformers

from tests.documented.notebook import SIZES, TEXTS, VOCABULARY
from tiryns.runner.data.text.tokenizer import train_tokenizer

TrainerMaker = Callable[..., lightning.Trainer]


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("documented") / "tokenizer"
    train_tokenizer(TEXTS, "wordpiece", VOCABULARY, True).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def text_lines(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of 40 documents, one JSON object a line."""
    path = tmp_path_factory.mktemp("documented") / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return str(path)


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory, tokenizer_folder: str) -> str:
    """A masked language model with its tokenizer, to be finetuned."""
    folder = tmp_path_factory.mktemp("documented") / "encoder"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(tokenizer), **SIZES)
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def trainer(tmp_path: Path) -> TrainerMaker:
    """`trainer(max_steps=3)`: a Trainer as it comes, but for its progress bar."""

    def make(**options: Any) -> lightning.Trainer:
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        return lightning.Trainer(accelerator="cpu", default_root_dir=str(tmp_path), **{**quiet, **options})

    return make
