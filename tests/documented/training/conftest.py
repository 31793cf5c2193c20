"""Pretraining modules and batches of the texts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from tests.documented.notebook import SIZES, TEXTS
from tiryns.runner.data import PretrainingDataModule
from tiryns.runner.modules import PretrainingModule
from tiryns.runner.objectives import get_collator_cls


def new(tokenizer_folder: str | None, **options: Any) -> PretrainingModule:
    torch.manual_seed(0)
    made: dict[str, Any] = {
        "pretrained_tokenizer_name_or_path": tokenizer_folder, "model_config_kwargs": SIZES,
        "compile_model": False, "scheduler_warmup_steps": 0, **options,
    }  # fmt: skip
    return PretrainingModule(**made)


def data(text_lines: str, tokenizer_folder: str, tmp_path: Path, **options: Any) -> PretrainingDataModule:
    made: dict[str, Any] = {
        "max_sequence_length": 32, "train_batch_size": 8, "val_batch_size": 8,
        "cache_dir": str(tmp_path / "cache"), **options,
    }  # fmt: skip
    return PretrainingDataModule(text_lines, tokenizer_folder, **made)


@pytest.fixture
def batch(tokenizer_folder: str) -> dict[str, torch.Tensor]:
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    torch.manual_seed(0)
    return collator(tokenizer_folder)([dict(tokenizer(text)) for text in TEXTS[:6]])


def collator(tokenizer_folder: str, objective: str = "mlm") -> Any:
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    ids = (tokenizer.pad_token_id, tokenizer.mask_token_id, len(tokenizer))
    return get_collator_cls(objective)(*ids, special_token_ids=tokenizer.all_special_ids)
