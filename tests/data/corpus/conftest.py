"""Files of text, a tokenizer for them, and corpora prepared with datatrove."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.data.text.conftest import paragraphs
from tests.support import needs
from tiryns.runner.data.text.tokenizer import train_tokenizer

REPEATED = 4
"""Documents that every file begins with."""


def write_texts(folder: Path, num_files: int = 5, num: int = 24) -> Path:
    """Files of different sizes, which begin with the same documents."""
    folder.mkdir()
    for number in range(num_files):
        texts = [*paragraphs(REPEATED), *paragraphs(num * (1 + number % 3), seed=number + 1)]
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        (folder / f"part-{number}.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture(scope="session", name="texts")
def texts_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("corpus") / "texts")


@pytest.fixture(scope="session", name="tokenizer")
def tokenizer_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus") / "tokenizer"
    train_tokenizer(paragraphs(100), "wordpiece", 120, True).save_pretrained(folder)
    return folder


@pytest.fixture(name="prepare")
def prepare_fixture(texts: Path, tokenizer: Path, tmp_path: Path) -> Callable[..., Any]:
    """`prepare_corpus` of the texts into a folder of the test, with other settings as they are given."""
    needs.package("datatrove")
    from tiryns.runner.data.corpus.plan import Step
    from tiryns.runner.data.corpus.prepare import prepare_corpus

    settings: dict[str, Any] = {
        "source": str(texts), "tokenizer": str(tokenizer), "max_length": 16, "long_documents": "sentences",
        "text_column": "text", "text_unit": "paragraph", "format": "auto", "validation": 0.1, "seed": 0,
        "tasks": 1, "workers": 1, "executor": Step("local", {}), "filters": [], "deduplicate": None,
    }  # fmt: skip
    return lambda folder="store", **given: prepare_corpus(
        folder=folder if "://" in folder else str(tmp_path / folder), **settings | given
    )
