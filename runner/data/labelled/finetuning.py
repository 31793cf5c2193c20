"""Labelled data for finetuning: read, checked, tokenised in memory, and served as global batches like any other."""

import hashlib
import logging
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from iolaus.runner.data.evaluated import EvaluatedDataModule, by_name
from iolaus.runner.data.labelled.classification import Classification
from iolaus.runner.data.labelled.labels import Labels
from iolaus.runner.data.labelled.question_answering import QuestionAnswering
from iolaus.runner.data.labelled.task import Task, TaskSequences
from iolaus.runner.data.labelled.token_classification import TokenClassification
from iolaus.runner.data.micro_batch import CollatorArguments, tokenizer_arguments
from iolaus.runner.data.read.task_readers import Rows, read_rows
from iolaus.runner.data.text.holdout import digest, split_documents
from iolaus.runner.data.text.tokenizer import describe_vocabulary, load_tokenizer, train_tokenizer
from iolaus.runner.inference.export import model_folder
from iolaus.runner.run.errors import suggest

log = logging.getLogger("iolaus")

TASKS = ("classification", "token_classification", "question_answering")


def make_task(
    task: str,
    text_column: str,
    pair_column: str | None,
    context_column: str,
    label_column: str,
    id_column: str | None,
    labels: list[Any] | None,
    problem_type: str,
    label_separator: str | None,
    doc_stride: int,
) -> Task:
    """A task by its name, with the columns it reads.

    Raises:
        ValueError: there is no such task, or a setting is out of range.
    """
    if task == "classification":
        names = Labels(labels, problem_type, label_separator)
        return Classification(text_column, pair_column, label_column, id_column, names)
    if task == "token_classification":
        return TokenClassification(text_column, label_column, id_column, labels)
    if task == "question_answering":
        return QuestionAnswering(text_column, context_column, label_column, id_column, doc_stride)
    raise ValueError(f"data.task={task!r}; there are: {', '.join(TASKS)}" + suggest(task, TASKS))


class FinetuningData(EvaluatedDataModule):
    """Training, validation and test examples of one task, from files, the hub, or made in code (`set_datasets`).

    Labels are learnt from the training examples. Without a validation set `validation_documents` (a number, or a share
    below 1) are held out of them, no text being in both. `validation` and `test` may name several sets.
    """

    def __init__(
        self,
        task: str,
        train: Any,
        validation: Any,
        validation_documents: float,
        test: Any,
        format: str,
        text_column: str,
        pair_column: str | None,
        context_column: str,
        label_column: str,
        id_column: str | None,
        word_field: int | str,
        tag_field: int | str | None,
        labels: list[Any] | None,
        problem_type: str,
        label_separator: str | None,
        doc_stride: int,
        tokenizer: str | None,
        tokenizer_kind: str,
        vocab_size: int,
        lowercase: bool,
        max_length: int,
        seed: int,
        layout: str,
        micro_batch_tokens: int | None,
        micro_batch_size: int | None,
        num_workers: int,
    ) -> None:
        super().__init__(layout, micro_batch_tokens, micro_batch_size, num_workers)
        self.task_settings: dict[str, Any] = {
            "task": task,
            "text_column": text_column,
            "pair_column": pair_column,
            "context_column": context_column,
            "label_column": label_column,
            "id_column": id_column,
            "labels": labels,
            "problem_type": problem_type,
            "label_separator": label_separator,
            "doc_stride": doc_stride,
        }
        self.task = make_task(**self.task_settings)
        self.task_name = task
        self.sources = {"train": train, "validation": validation, "test": test}
        self.reading: dict[str, Any] = {"format": format, "word_field": word_field, "tag_field": tag_field}
        self.validation_documents, self.split_seed = validation_documents, seed
        self.tokenizer_name = tokenizer
        self.training_a_tokenizer: dict[str, Any] = {
            "kind": tokenizer_kind,
            "vocab_size": vocab_size,
            "lowercase": lowercase,
        }
        self.text_column, self.label_column, self.max_length = text_column, label_column, max_length
        self.test: dict[str, TaskSequences] = {}
        self.prepared = False

    def set_datasets(self, train: Any, val: Any = None, test: Any = None) -> None:
        """Takes data made in code: mappings in any iterable, or a `datasets.Dataset`; several sets by name in a dict.

        Call it before `prepare_data`.
        """
        if self.prepared:
            raise ValueError("the data has been prepared already: call set_datasets before prepare_data")
        self.sources = {"train": train, "validation": val, "test": test}

    def prepare_data(self) -> None:
        """Reads and tokenises everything, unless that has been done.

        Raises:
            ValueError: no training data, or rows that are not of the task (they are named).
        """
        if self.prepared:
            return
        if self.sources["train"] is None:
            raise ValueError(
                "data.train names no training data: give a file, a glob, or name@split of the hub"
            )
        rows = self._read(self.sources["train"], "data.train")
        examples = {"train": self.task.examples(rows, labelled=True)}
        validation, test = (
            by_name(self.sources["validation"], "validation"),
            by_name(self.sources["test"], "test"),
        )
        for name, source in validation.items():
            given = self._read(source, f"data.validation {name!r}")
            examples[f"val/{name}"] = self.task.examples(given, labelled=True)
        for name, source in test.items():
            given = self._read(source, f"data.test {name!r}")
            examples[f"test/{name}"] = self.task.examples(given, labelled=False)
        if not validation and self.validation_documents:
            examples["train"], examples["val/validation"] = self._hold_out(examples["train"])
        self.task.learn(examples["train"], rows)
        self._tokenizer = self._make_tokenizer(examples["train"])
        sets = {
            name: self.task.tokenize(some, self._tokenizer, self.max_length, training=name == "train")
            for name, some in examples.items()
        }
        self.train_set = sets.pop("train")
        self.train = self.train_set
        self.validation = {n.removeprefix("val/"): s for n, s in sets.items() if n.startswith("val/")}
        self.test = {n.removeprefix("test/"): s for n, s in sets.items() if n.startswith("test/")}
        self.description, self.prepared = rows.description, True

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the samples: that of the model to finetune, or one trained on the training texts."""
        assert self.prepared, "prepare_data comes first"
        return self._tokenizer

    def collator_arguments(self) -> CollatorArguments:
        """The arguments of the objective's collator that the data decides."""
        return {
            **tokenizer_arguments(self.tokenizer),
            "text_column": self.text_column,
            "label_column": self.label_column,
            "max_sequence_length": self.max_length,
            **self.task.collator_arguments(),
        }

    def fingerprint(self) -> str:
        """A hash of the training samples and of what their targets mean."""
        meaning = repr(sorted(self.task.collator_arguments().items())).encode()
        return hashlib.blake2b(self.train_set.fingerprint.encode() + meaning, digest_size=12).hexdigest()

    def known_task(self) -> dict[str, Any]:
        """The task, its columns and what was learnt of it, for predictions on other data."""
        settings = {**self.task_settings, **self.reading, "max_length": self.max_length}
        return {"data": settings, "learnt": self.task.state_dict()}

    def baselines(self) -> dict[str, float]:
        """What each set gives without a model, such as the accuracy of always naming the most frequent label."""
        sets = {f"val/{n}": s for n, s in self.validation.items()} | {
            f"test/{n}": s for n, s in self.test.items()
        }
        return {
            f"{name}/{figure}": value
            for name, sequences in sets.items()
            for figure, value in self.task.baselines(sequences).items()
        }

    def describe(self) -> dict[str, str]:
        """Counts for the summary at the start."""
        sets = {
            "training": self.train_set,
            **self.validation,
            **{f"test {n}": s for n, s in self.test.items()},
        }
        size = self.sampler.global_batch_size
        return {
            "source": self.description,
            **{name: _counts(sequences) for name, sequences in sets.items()},
            **self.task.describe(),
            "vocabulary": describe_vocabulary(self.tokenizer),
            "global batch": f"{size} samples, about {size * self.train_set.num_tokens // len(self.train_set):,} tokens",
            "micro-batch": f"{self.micro_batch_tokens or 'any number of'} tokens, {self.layout}",
        }

    def _read(self, source: Any, setting: str) -> Rows:
        rows = read_rows(source, **self.reading)
        if not rows.rows:
            raise ValueError(f"{setting}: {rows.description} holds no examples")
        return rows

    def _hold_out(self, examples: list[Any]) -> tuple[list[Any], list[Any]]:
        digests = np.array([digest(text) for text in self.task.texts(examples)], dtype=np.uint64)
        held_out = np.isin(digests, split_documents(digests, self.validation_documents, self.split_seed))
        return (
            [e for e, held in zip(examples, held_out, strict=True) if not held],
            [e for e, held in zip(examples, held_out, strict=True) if held],
        )

    def _make_tokenizer(self, examples: list[Any]) -> PreTrainedTokenizerBase:
        if self.tokenizer_name is None:
            return train_tokenizer(list(self.task.texts(examples)), **self.training_a_tokenizer)
        tokenizer = load_tokenizer(model_folder(self.tokenizer_name))
        if self.max_length > tokenizer.model_max_length:
            raise ValueError(
                f"data.max_length={self.max_length} is more than the {tokenizer.model_max_length} tokens that the model "
                f"of data.tokenizer={self.tokenizer_name!r} can read"
            )
        return tokenizer


def _counts(sequences: TaskSequences) -> str:
    windows = f" in {len(sequences):,} samples" if len(sequences) != len(sequences.examples) else ""
    return f"{len(sequences.examples):,} examples{windows}, {sequences.num_tokens:,} tokens"
