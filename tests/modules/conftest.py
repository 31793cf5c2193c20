"""Finetuning of a few examples in this process, for each task."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.data.labelled.tasks import choices, questions, rankings, sentences, tags, texts
from tests.data.pairs.rows import write
from tests.support.composed import composed
from tests.support.precision import PRECISION
from tiryns.runner.run.folder import Run
from tiryns.runner.train import train

TINY = [
    "data.max_length=48", "data.micro_batch_tokens=400", "data.validation_documents=0", "module=finetuning",
    "sampler.global_batch_size=12", "trainer=cpu", f"trainer.precision={PRECISION}", "trainer.max_steps=8",
    "trainer.validate_every=4", "trainer.log_every=1", "optimizer.lr=0.01", "scheduler=constant",
]  # fmt: skip
NEW = ["model=bert_tiny", "model.hidden_size=32", "model.intermediate_size=64", "data.vocab_size=300"]
"""A model from scratch, with a tokenizer of its own."""
TASKS = {
    "classification": ["data=classification", "objective=classification"],
    "token_classification": ["data=token_classification", "objective=token_classification"],
    "question_answering": ["data=question_answering", "objective=question_answering", "data.doc_stride=12"],
    "multiple_choice": ["data=multiple_choice", "objective=multiple_choice"],
}
JOINT = {"joint_tagging": ["data=joint_tagging", "objective=joint_tagging", "data.tag_columns=[kind,part]"]}
RANKING = {"ranking": ["data=ranking", "objective=ranking"]}
EVERY = TASKS | JOINT | RANKING
"""Also tasks with tests of their own: several labels for each word, and lists of candidates."""

ROWS: dict[str, Callable[[int, int], list[dict[str, Any]]]] = {
    "classification": texts, "token_classification": sentences, "question_answering": questions,
    "multiple_choice": choices, "joint_tagging": tags, "ranking": rankings,
}  # fmt: skip

Finetune = Callable[..., Run]


@pytest.fixture(scope="session")
def task_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Overrides that name training and validation files, and a test file of 17 examples, by task."""
    folder = tmp_path_factory.mktemp("tasks")
    found = {}
    for task, rows in ROWS.items():
        found[task] = list(EVERY[task])
        for seed, (name, count) in enumerate({"train": 60, "validation": 23, "test": 17}.items()):
            path = write(folder / f"{task}-{name}.jsonl", rows(count, seed))
            found[task].append(f"data.{name}={path}")
    return found


@pytest.fixture
def finetune(tmp_path: Path, task_files: dict[str, list[str]]) -> Finetune:
    """Finetunes in this process: `finetune("classification", "optimizer=lion", folder="name")`.

    `start` is the run folder to start from, otherwise the model is new.
    """
    return finetuning(tmp_path, task_files)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, task_files: dict[str, list[str]]) -> Finetune:
    """`finetune` of runs that are trained once with the same words, for tests that only read them."""
    home = tmp_path_factory.mktemp("finished")
    finetune = finetuning(home, task_files)
    return cache(lambda *words: finetune(*words, folder=str(len([*home.iterdir()]))))


def finetuning(home: Path, task_files: dict[str, list[str]]) -> Finetune:
    """What `finetune` is, with runs in a folder."""

    def call(task: str, *overrides: str, folder: str = "run", start: Run | None = None) -> Run:
        run = Run(home / folder)
        model = NEW if start is None else ["model=pretrained", f"model.name_or_path={start.path}"]
        arguments = [*task_files[task], *TINY, *model, *overrides]
        config = composed(arguments)
        run.begin(config, arguments)
        train(config, run)
        return run

    return call
