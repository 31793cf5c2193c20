"""The examples in the docstrings of the program are run, each as it stands."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.conftest import ROOT, few_of
from tests.house.budget import sources
from tiryns.conf import registry

MODULES = [
    ".".join(("tiryns", *path.with_suffix("").parts)).replace("tiryns.tiryns.", "tiryns.")
    for path in sources("conf", "runner", "tiryns")
    if ">>>" in (ROOT / path).read_text() and path.parts[:3] != ("runner", "cli", "new")
]

OF_STDLIB = {f"tiryns.runner.data.demo.stdlib_{name}" for name in ("choices", "pairs", "tasks", "text")}

OF_FILES = ("PretrainingModule", "PretrainingDataModule", "FinetuningModule", "FinetuningDataModule")
"""Examples with files that a reader has; `tests/documented/test_lightning_page.py` runs them."""


@pytest.mark.parametrize("name", few_of(MODULES, {*MODULES} - OF_STDLIB))
def test_examples_of_docstrings_hold(
    name: str, here: Path, options: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for names in ("TASKS", "METRICS"):  # some examples register
        monkeypatch.setattr(registry, names, {**getattr(registry, names)})
    examples = [one for one in doctest.DocTestFinder().find(import_module(name)) if one.examples]
    assert examples
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for example in examples:
        if example.name.rpartition(".")[2] not in OF_FILES:
            runner.run(example)
    assert not runner.failures
