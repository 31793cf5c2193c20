"""Labelled data for finetuning: read, checked, tokenised in memory, and served as global batches."""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import compress
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from tiryns.conf.data import labelled as options
from tiryns.conf.data.labelled import FOLD_SET, check_fold
from tiryns.conf.data.pairs import Mteb, Retrieval
from tiryns.conf.values import count_of
from tiryns.runner import log
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.evaluated import EvaluatedDataModule, all_problems, by_name
from tiryns.runner.data.labelled.columns import meant_error, warn_of_alike, warn_of_unread, without_hidden
from tiryns.runner.data.labelled.examples import READER_SETTINGS, ExampleReader, TaskSequences
from tiryns.runner.data.micro_batch import CollatorArguments, tokenizer_arguments
from tiryns.runner.data.read.bad_rows import BadRow, BadRows, MissingColumn, first_of
from tiryns.runner.data.read.opened import Dialect, reading_of
from tiryns.runner.data.read.rows import HowRead, LabelRule, Rows, RowSources, described_tables, read_rows
from tiryns.runner.data.text.holdout import are_held_out, fold_numbers
from tiryns.runner.data.text.tokenizer import load_tokenizer, train_tokenizer
from tiryns.runner.data.text.vocabulary import describe_vocabulary
from tiryns.runner.protocols import Resolved
from tiryns.runner.run.model_folder import model_folder


class FinetuningData(EvaluatedDataModule):
    """Training, validation and test examples of one task, from files, the hub, or made in code (`set_datasets`).

    Labels are those of the training examples. Without a validation set, `validation_documents` of the training examples
    (a number, or a share below 1) are held out; no text is in both sets. `validation` and `test` may name several sets.
    With `folds`, fold number `fold` of the training examples becomes a test set; the other folds remain training data.
    Example: `tiryns experiment=classification data=classification data.train=train.csv`
    """

    settings: options.FinetuningData
    reader_names: tuple[str, ...] = READER_SETTINGS
    """The settings that readers take."""

    @takes_settings(options.FinetuningData)
    def __init__(self, settings: options.FinetuningData) -> None:
        self.set_up(settings)

    def set_up(self, settings: options.FinetuningData) -> None:
        """Takes the settings, which may have more fields in a subclass."""
        EvaluatedDataModule.__init__(self, settings)
        check_fold(settings.folds, settings.fold)
        self.max_length = settings.max_length
        task: Any = settings.task  # a `runner.tasks.Task`
        self.task_name = task.name
        self.reader_settings = {name: getattr(settings, name) for name in self.reader_names}
        self.reader: ExampleReader[Any] = task.make_reader(self.reader_settings)
        self.reading = reading_of(settings)
        self.bad: dict[str, BadRows] = {}
        self.tables: dict[str, Dialect] = {}
        self.decided_tables: dict[str, Dialect] = {}
        self.conflicts = 0

    def set_datasets(self, train: RowSources, val: RowSources = None, test: RowSources = None) -> None:
        """Sets the data, before `prepare_data`: iterables of mappings, `datasets.Dataset`s, or a dict of sets by name."""
        if self.prepared:
            raise ValueError("the data has been prepared already: call set_datasets before prepare_data")
        self.sources = {"train": train, "validation": val, "test": test}

    def prepare_data(self) -> None:
        """Reads and tokenises everything once. Raises ValueError for missing data, or rows that do not fit the task."""
        if self.prepared:
            return
        if self.sources["train"] is None:
            problem = "data.train names no training data: give a file, folder, glob, or name@split of the hub"
            raise ValueError(problem)
        try:
            rows, examples = self.read_examples()
        except ValueError as error:
            raise all_problems(error, self) from None
        self._tokenizer = tokenizer_of(self.settings, lambda: self.reader.texts(examples["train"]))
        sets = {
            name: self.reader.tokenize(one_set, self._tokenizer, self.max_length, training=name == "train")
            for name, one_set in examples.items()
        }
        self.train = self.train_set = sets.pop("train")
        self.validation = {n.removeprefix("val/"): s for n, s in sets.items() if n.startswith("val/")}
        self.test = {n.removeprefix("test/"): s for n, s in sets.items() if n.startswith("test/")}
        self.evaluated_sets, self.description, self.prepared = sets, rows.description, True

    def read_examples(self) -> tuple[Rows, dict[str, list[Any]]]:
        """Returns the training rows, and the usable examples of every set; raises ValueError as `prepare_data` does."""
        rows, train = self._read("train", "train", self.sources["train"])
        self.reader.learn(train, rows)  # before other files, whose class names count as these classes tell
        examples = {"train": train}
        for part, prefix in (("validation", "val"), ("test", "test")):
            for name, source in by_name(self.sources[part], part).items():
                full = f"{prefix}/{name}"
                _, examples[full] = self._read(full, part, source, rows)
        self._hold_out(examples, rows)
        conflicts = self.reader.conflicts(train)
        self.conflicts = len(conflicts)
        if conflicts:
            log.warning("%s with different labels: %s", count_of(len(conflicts), "text"), first_of(conflicts))
        warn_of_alike(self.reader.collator_arguments().get("labels") or [])
        for name, one_set in examples.items():
            bad = self.bad.get(name) or self.bad["train"]
            examples[name] = self.reader.usable(one_set, bad)
            if one_set and not examples[name]:
                raise ValueError(f"data: no example of {name} can be used: {bad.first}")
        return rows, examples

    def _read(self, name: str, part: str, source: Any, train: Rows | None = None) -> tuple[Rows, list[Any]]:
        """Returns the rows and examples of a source; records the dialects of its tables and the rows left out."""
        setting = "data.train" if name == "train" else f"data.{part} {name.partition('/')[2]!r}"
        bad = self.bad[name] = BadRows(self.settings.on_bad_row == "skip", "data.on_bad_row=skip")
        how = HowRead(bad, self.reader.columns(), self.decided_tables, rule=self.reader.rule)
        rows = read_rows(self.reader.source(source, part), self.reading, part, setting, how)
        self.tables |= rows.tables
        if part == "test" and train:
            rows = without_hidden(rows, self.reader.label_names(), train)
        try:
            rows = self.reader.arranged(rows)
            examples = self.reader.examples(rows, labelled=part != "test")
        except MissingColumn as error:
            columns = (self.settings.text_column, self.settings.label_column)
            raise meant_error(error, rows, *columns, reader=self.reader) from None
        if not examples:
            raise ValueError(f"{setting}: {rows.description} holds no row that can be used: {bad.first}")
        if name.startswith("train"):
            warn_of_unread(rows, self.reader)
        return rows, examples

    def _hold_out(self, examples: dict[str, list[Any]], rows: Rows) -> None:
        """Moves the fold out of the training examples, and after it a validation set if the settings name none."""
        data, train = self.settings, examples["train"]
        groups = self._groups(train, rows)
        if data.folds is not None:
            if f"test/{FOLD_SET}" in examples:
                raise ValueError(
                    f"data.test names a set {FOLD_SET!r}, a name that data.folds uses: choose another"
                )
            mask = fold_numbers(groups, [*map(self._stratum, train)], data.folds, data.seed) == data.fold
            examples[f"test/{FOLD_SET}"] = list(compress(train, mask))
            train, groups = list(compress(train, ~mask)), list(compress(groups, ~mask))
        if data.validation_documents and not by_name(self.sources["validation"], "validation"):
            mask = are_held_out(groups, data.validation_documents, data.seed)
            full_mask, labels = mask, [{*self._stratum(example).split("\0")} - {""} for example in train]
            # a label that only held-out examples have could not be learnt: these stay in training
            others = set[str]().union(*compress(labels, ~mask))
            rare = {group for group, one in compress(zip(groups, labels, strict=True), mask) if one - others}
            mask = mask & ~np.array([group in rare for group in groups], dtype=bool)
            if full_mask.any() and not mask.any():
                raise ValueError(
                    f"{rows.description}: no text can be held out for validation: training would lose a label; "
                    "give data.validation, or data.validation_documents=0 for none"
                )
            examples["val/validation"] = list(compress(train, mask))
            train = list(compress(train, ~mask))
        examples["train"] = train

    def _stratum(self, example: object) -> str:
        """Returns the stratum of an example; an empty text if the example cannot be used."""
        with suppress(BadRow):
            return self.reader.strata([example])[0]
        return ""

    def _groups(self, examples: list[Any], rows: Rows) -> list[str]:
        """Returns the group of each example; examples of one group are held out together."""
        name = self.settings.group_column
        if name is None:
            return list(self.reader.texts(examples))
        if len(examples) == len(rows.rows):
            return [str(row.column(name, "data.group_column")) for row in rows.rows]
        places = {row.where: row for row in rows.rows}
        if not all(hasattr(example, "where") for example in examples):
            raise ValueError("data.group_column: this task does not make exactly one example from each row")
        return [str(places[example.where].column(name, "data.group_column")) for example in examples]

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the samples, from the model to finetune or trained on the training texts."""
        assert self.prepared, "prepare_data comes first"
        return self._tokenizer

    def collator_arguments(self) -> CollatorArguments:
        """Returns the arguments of the objective's collator that depend on the data."""
        arguments: CollatorArguments = {
            **tokenizer_arguments(self.tokenizer),
            "text_column": self.settings.text_column,
            "label_column": self.settings.label_column,
            "max_sequence_length": self.max_length,
            **self.reader.collator_arguments(),
        }
        if counts := getattr(self.train_set, "label_counts", None):
            arguments["label_counts"] = counts
        return arguments

    def fingerprint(self) -> str:
        meaning = repr(sorted(self.reader.collator_arguments().items())).encode()
        return hashlib.blake2b(self.train_set.fingerprint.encode() + meaning, digest_size=12).hexdigest()

    def known_task(self) -> dict[str, object]:
        settings = {"task": self.task_name, **self.reader_settings, **self.reading._asdict()}
        settings["max_length"] = self.max_length
        return {"data": settings, "learnt": self.reader.state_dict(), **self.reader.rule.record}

    def baselines(self) -> dict[str, float]:
        return {
            f"{name}/{figure}": value
            for name, sequences in self.evaluated_sets.items()
            for figure, value in self.reader.baselines(sequences).items()
        }

    def counts(self, sequences: TaskSequences) -> str:
        windows = f" in {len(sequences):,} samples" if len(sequences) != len(sequences.examples) else ""
        return f"{len(sequences.examples):,} examples{windows}, {sequences.num_tokens:,} tokens"

    def facts(self) -> dict[str, str]:
        """Returns the dialects of tables, the rows left out, the labels, and the vocabulary, for the summary."""
        read = {"read": described_tables(self.tables)} if self.tables else {}
        bad_rows = {f"rows of {name}": bad.describe() for name, bad in self.bad.items() if bad.places}
        phrase = f"{count_of(self.conflicts, 'text')} with different labels"
        conflicts = {"conflicts": phrase} if self.conflicts else {}
        vocabulary = {"vocabulary": describe_vocabulary(self.tokenizer, self.train_set)}
        return {**read, **bad_rows, **self.reader.describe(), **conflicts, **vocabulary}

    def decisions(self) -> dict[str, object]:
        """Returns the dialects by path (`tables`), the rows `left_out` by set and reason, and the rule of `labels`."""
        tables = {path: dialect._asdict() for path, dialect in self.tables.items()}
        bad_rows = {name: reasons for name, bad in self.bad.items() if (reasons := bad.reasons())}
        record = {"tables": tables, "left_out": bad_rows}
        facts = {name: one for name, one in record.items() if one}
        return {**super().decisions(), **facts, **self.reader.rule.record}

    def take_over(self, record: Resolved) -> None:
        """Takes over the `record` of the run to resume: `prepare_data` then reads tables and labels as that run did."""
        super().take_over(record)
        tables = record.get("tables") or {}
        self.decided_tables = {path: Dialect(**dialect) for path, dialect in tables.items()}
        if record:
            self.reader.read_by(LabelRule.of(record))


def tokenizer_of(
    config: options.FinetuningData | Retrieval | Mteb, texts: Callable[[], Iterable[str]]
) -> PreTrainedTokenizerBase:
    """Returns the tokenizer of the settings, or one trained on `texts`; ValueError if `max_length` is too large."""
    if config.tokenizer is None and not isinstance(config, Mteb):
        return train_tokenizer(list(texts()), config.tokenizer_kind, config.vocab_size, config.lowercase)
    tokenizer = load_tokenizer(model_folder(config.tokenizer), needed=("pad",))
    if config.max_length > tokenizer.model_max_length:
        raise ValueError(
            f"data.max_length={config.max_length} is more than the {tokenizer.model_max_length} tokens that the model "
            f"of data.tokenizer={config.tokenizer!r} can read"
        )
    return tokenizer
