"""Data modules of the texts, and their documents as they must come out."""

from itertools import pairwise
from typing import Any

import pytest
from transformers import AutoTokenizer

from tests.documented.notebook import TEXTS
from tiryns.runner.data import PretrainingDataModule

LENGTH = 16
"""Tokens at which documents are cut; about half of them are longer."""


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("tokens"))


@pytest.fixture
def new(text_lines: str, tokenizer_folder: str, cache_dir: str) -> Any:
    """`new(train_batch_size=3)`: the data module of the texts, set up; their order is seen where nothing is masked."""

    def make(source: Any = text_lines, stage: str | None = "fit", **options: Any) -> PretrainingDataModule:
        made: dict[str, Any] = {
            "objective": "enhanced_mlm", "max_sequence_length": LENGTH, "train_batch_size": 7, "cache_dir": cache_dir,
            **options,
        }  # fmt: skip
        data = PretrainingDataModule(source, tokenizer_folder, **made)
        data.prepare_data()
        data.setup(stage)
        return data

    return make


@pytest.fixture(scope="module")
def tokenised(tokenizer_folder: str) -> list[tuple[int, ...]]:
    """The documents as they must come out."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    return [tuple(tokenizer(text, truncation=True, max_length=LENGTH)["input_ids"]) for text in TEXTS]


def documents(batches: Any) -> list[tuple[int, ...]]:
    """The token ids of all rows without padding, document by document."""
    found = []
    for batch in batches:
        if "cu_seqlens" in batch:
            row, ends = batch["input_ids"][0], batch["cu_seqlens"].tolist()
            parts = [row[a:b] for a, b in pairwise(ends)]
            found += [tuple(part.tolist()) for part in parts if part[0] != 0]
        else:
            for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
                found.append(tuple(ids[mask > 0].tolist()))
    return found
