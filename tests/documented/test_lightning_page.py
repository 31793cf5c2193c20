"""The examples of the four Lightning classes: those in their docstrings, and those of their part of a page."""

import doctest
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import ROOT
from tests.support.commands import blocks
from tiryns.runner.data import FinetuningDataModule, PretrainingDataModule
from tiryns.runner.modules import FinetuningModule, PretrainingModule


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


@pytest.mark.parametrize(
    "documented", [PretrainingModule, PretrainingDataModule, FinetuningModule, FinetuningDataModule]
)
def test_example(
    documented: Any, text_lines: str, tokenizer_folder: str, encoder_folder: str, here: Path
) -> None:
    given = {
        documented.__name__: documented, "torch": torch, "text_file": text_lines,
        "tokenizer_folder": tokenizer_folder, "model_folder": encoder_folder,
    }  # fmt: skip
    [example] = doctest.DocTestFinder(recurse=False).find(documented, documented.__name__, globs=given)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.slow
def test_page(here: Path) -> None:
    """Its Python blocks, one after the other."""
    shown = blocks(ROOT / "docs" / "python.md", "Lightning classes")
    assert [block.language for block in shown] == ["python"] * 4
    names: dict[str, Any] = {}
    for block in shown:
        exec(compile(block.text, "docs/python.md", "exec"), names)
    assert (here / "huggingface" / "step-00000020" / "config.json").exists()
    assert 0 <= names["figures"]["test/accuracy"] <= 1
