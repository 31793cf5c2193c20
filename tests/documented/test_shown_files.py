"""The files that pages show are written as they stand, and the commands that read them train, with two steps."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PRECISION, ROOT, few_of
from tests.house.test_docs import PLACEHOLDER, runs_in
from tests.support.commands import PAGES, Block, blocks, commands, words_of
from tests.support.in_process import tiryns_here

SHORT = [
    "trainer=cpu", f"trainer.precision={PRECISION}", "trainer.max_steps=2", "trainer.validate_every=0",
    "data.num_workers=0",
]  # fmt: skip

TEXTS = (".csv", ".json", ".jsonl", ".txt", ".conll")

ELSEWHERE = {"extending", "vision_language"}
"""Pages whose commands need code or images too, and are run by tests of their own."""


def reads(words: list[str], shown: list[Block]) -> bool:
    """Whether a command trains on a file that is shown, or on a folder of such files."""
    names = "|".join(re.escape(block.title.partition("/")[0]) for block in shown) or "$^"
    settings = [word for word in words[1:] if re.match(r"data\.(train|source|mixture)=", word)]
    return words[:1] == ["tiryns"] and any(re.search(rf"[= ](?:{names})\b", word) for word in settings)


def training(page: Path) -> Iterator[tuple[list[Block], str]]:
    """The commands of a page that train on files that it shows, each with the files that are shown before it."""
    shown: list[Block] = []
    for block in blocks(page):
        if block.title.endswith(TEXTS):
            shown.append(block)
        elif block.language == "bash" and not block.title:
            for command in commands(block.text):
                if reads(words_of(command), shown):
                    yield list(shown), command


TRAINING = {page.stem: page for page in PAGES if page.stem not in ELSEWHERE and any(training(page))}


def test_pages_with_files_are_found() -> None:
    names = {"classification", "data", "evaluating", "first-week", "mlm", "phases", "question_answering"}
    assert TRAINING.keys() >= names | {"token_classification"}
    assert len(list(training(ROOT / "docs" / "tutorials" / "classification.md"))) == 6


@pytest.mark.slow
@pytest.mark.parametrize("page", few_of(TRAINING, ["mlm"]))
def test_commands_train_on_the_files_as_they_are_shown(page: str, tmp_path: Path) -> None:
    for shown, command in training(TRAINING[page]):
        for block in shown:
            path = tmp_path / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        words = words_of(re.sub(PLACEHOLDER, lambda _: runs_in(tmp_path, "*")[-1], command))[1:]
        model = [] if any(word.startswith("model=") for word in words) else ["model=bert_tiny"]
        done = tiryns_here(tmp_path, *words, *model, *SHORT)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
