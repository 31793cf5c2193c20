"""Paragraphs as a source, and what is prepared of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiryns.conf.data import pretraining as options
from tiryns.runner.data.read.documents import Source, open_source
from tiryns.runner.data.text.prepare import PreparedText, prepare_text

WORDS = ["the", "a", "river", "runs", "under", "old", "bridge", "while", "seven", "herons", "watch", "again"]


SETTINGS: dict[str, Any] = {
    "validation_documents": 10, "tokenizer": None, "tokenizer_kind": "wordpiece", "vocab_size": 120,
    "lowercase": True, "max_length": 16, "long_documents": "sentences", "seed": 0,
}  # fmt: skip


def prepared_in(
    folder: Path, source: Source, validation_sources: dict[str, Source] | None = None, **changed: Any
) -> PreparedText:
    """What is prepared of a source in a cache, with other settings as they are given."""
    settings = options.PretrainingData(cache_dir=str(folder), **{**SETTINGS, **changed})
    return prepare_text(source, validation_sources or {}, settings)


def paragraphs(num: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(4, 40))).capitalize() + f" {n}." for n in range(num)]


class Own:
    """A source with nothing but the methods that one must have, which cannot be cut."""

    tokenized = False

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def documents(self) -> Iterator[str]:
        return iter(self.texts)

    def fingerprint(self) -> dict[str, Any]:
        return {"own": 1}

    def describe(self) -> str:
        return "own"


def text_source(path: Path, documents: list[str]) -> Source:
    path.write_text("\n\n".join(documents))
    return open_source(path, "text", "train", "paragraph")


@pytest.fixture(name="source")
def source_fixture(tmp_path: Path) -> Source:
    return text_source(tmp_path / "herons.txt", paragraphs(100))


@pytest.fixture(name="prepared")
def prepared_fixture(source: Source, tmp_path: Path) -> Callable[..., PreparedText]:
    return lambda source=source, **changed: prepared_in(tmp_path / "cache", source, **changed)
