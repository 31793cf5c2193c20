"""The part "As a library" holds: its blocks are run. Each module of documented names has an example."""

from pathlib import Path

import pytest

from tests.conftest import ROOT, few_of
from tests.data.energon.sets import make_set
from tests.documented.face.test_examples import MODULES as with_examples
from tests.support.commands import blocks, part

PAGE, PART = ROOT / "docs" / "python.md", "As a library"

MODULES = (
    "runner.data.energon.module", "runner.data.energon.loader", "runner.loaders.microbatches",
    "runner.loaders.multi_epoch",
    "runner.evaluation.metrics", "runner.objectives.base", "runner.objectives.labelled.classification",
    "runner.objectives.diffusion", "runner.objectives.mlm", "runner.objectives.labelled.question_answering",
    "runner.objectives.labelled.token_classification", "runner.optim.schedule.schedulers", "runner.optim.table",
    "runner.samplers.base", "runner.loaders.split_modality",
)  # fmt: skip
"""Where the documented names are; each has an example in its docstring."""


def sections() -> dict[str, list[str]]:
    """The Python blocks of the part by the headings that they stand under."""
    found: dict[str, list[str]] = {}
    for section in part(PAGE, PART).split("\n### ")[1:]:
        codes = [code.partition("```")[0] for code in section.split("```python\n")[1:]]
        if codes:
            found[section.partition("\n")[0]] = codes
    return found


@pytest.mark.parametrize(
    "heading", few_of(sections(), ["Metrics", "Packed attention in any encoder of transformers"])
)
def test_section_runs(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "energon" in heading:
        make_set(tmp_path / "shards", count=12, validation=3)
    code = "\n".join(sections()[heading])
    exec(compile(code, f"python.md: {heading}", "exec"), {"__name__": "library"})


def test_every_block_of_the_part_is_run() -> None:
    shown = [block for block in blocks(PAGE, PART) if block.language == "python"]
    assert len(shown) == sum(map(len, sections().values())) >= 11


def test_documented_names_have_examples() -> None:
    assert {f"tiryns.{name}" for name in MODULES} <= {*with_examples}
