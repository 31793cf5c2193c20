"""Labelled data for finetuning with a plain `lightning.Trainer`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.registry import OPTIONS
from tiryns.runner.data.labelled.columns import without_hidden
from tiryns.runner.data.labelled.examples import TaskSequences
from tiryns.runner.data.labelled.labels_from_zero import MOST_CLASSES
from tiryns.runner.data.labelled.spelling import is_missing, to_python
from tiryns.runner.data.micro_batch import CollatorArguments, tokenizer_arguments
from tiryns.runner.data.read.cards import card_files
from tiryns.runner.data.read.files import load_hub, of_config, split_files, splits_in
from tiryns.runner.data.read.formats import ROWS
from tiryns.runner.data.read.rows import Rows, RowSource, read_rows
from tiryns.runner.loaders.base import PassesDataModule
from tiryns.runner.loaders.passes import PassLoader, StoredPasses
from tiryns.runner.tasks import get_trainer_task

DEFAULT_SPLITS = {"train": "train", "val": "validation", "test": "test"}

LONGEST_STRIDE = 128
"""Maximum number of tokens shared by neighbouring windows of a context; short windows share a quarter of their length."""


@dataclass(eq=False, repr=False)
class FinetuningDataModule(PassesDataModule):
    """Training, validation and test examples of a task, as batches of its collator.

    They come from a folder with a file for each split, a data set that `datasets` has saved, a hub name, or from code
    (`set_datasets`). Labels that are text are sorted and numbered; integers keep their numbers. `pair_column` names the
    second text of pairs to classify.

    Example:
        >>> rows = [{"text": "seven herons", "label": 0}, {"text": "an old bridge", "label": 1}]
        >>> data = FinetuningDataModule("classification", tokenizer_folder, max_sequence_length=16)
        >>> data.set_datasets(train=rows, val=rows)
        >>> data.setup("fit")
        >>> next(iter(data.val_dataloader()))["labels"].tolist()
        [0, 1]
    """

    task: str
    pretrained_tokenizer_name_or_path: str
    dataset_name_or_path: str | None = None
    dataset_config_name: str | None = None
    max_sequence_length: int = 512
    train_split: str = "train"
    val_split: str = "validation"
    test_split: str = "test"
    text_column: str = "text"
    label_column: str = "label"
    train_batch_size: int = 32
    val_batch_size: int = 32
    test_batch_size: int = 32
    num_workers: int = 0
    shuffle_train: bool = True
    collator_kwargs: dict[str, Any] | None = None
    pair_column: str | None = None
    seed: int = 0

    needed_tokens = ("pad",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._task = get_trainer_task(self.task)
        self.row_sources: dict[str, RowSource] = {}
        self.sets: dict[str, TaskSequences] = {}

    def set_datasets(
        self, train: RowSource | None = None, val: RowSource | None = None, test: RowSource | None = None
    ) -> None:
        """Sets data made in code. Each given set is a `datasets.Dataset` or a list of dicts."""
        sources = {"train": train, "val": val, "test": test}
        self.row_sources, self.sets = {name: rows for name, rows in sources.items() if rows is not None}, {}

    def prepare_data(self) -> None:
        """Downloads data set and tokenizer once, before other processes load them."""
        self._rows()
        assert self.tokenizer is not None

    def setup(self, stage: str | None = None) -> None:
        """Reads and tokenises all sets, for any stage.

        Raises ValueError for missing data, an unknown split, or rows that do not fit the task.
        """
        if self.sets:
            return
        rows, tokenizer = self._rows(), self.tokenizer
        options, label_column = self.collator_kwargs or {}, self._column("label", self.label_column, rows)
        self.reader = self._task.make_reader(
            {
                "text_column": self._column("text", self.text_column, rows),
                "pair_column": self.pair_column,
                "context_column": options.get("context_column", "context"),
                "label_column": label_column,
                "id_column": None,
                "labels": numbered_labels(rows, label_column),
                "problem_type": "auto",
                "label_separator": None,
                "doc_stride": options.get("doc_stride", min(LONGEST_STRIDE, self.max_sequence_length // 4)),
            }
        )
        first = next(iter(rows))
        if "test" in rows:
            rows["test"] = without_hidden(rows["test"], self.reader.label_names(), rows[first])
        examples = {}
        for n, split_rows in rows.items():
            examples[n] = self.reader.examples(split_rows, labelled=n != "test")
            if n == first:
                self.reader.learn(examples[n], split_rows)
        self.sets = {
            n: self.reader.tokenize(part, tokenizer, self.max_sequence_length, training=n == "train")
            for n, part in examples.items()
        }
        arguments: CollatorArguments = {
            **tokenizer_arguments(tokenizer),
            "special_token_ids": [i for i in tokenizer.all_special_ids if i != tokenizer.unk_token_id],
            "text_column": self.text_column,
            "label_column": self.label_column,
            "max_sequence_length": self.max_sequence_length,
            **self.reader.collator_arguments(),
        }
        self.collator = self.make_collator(self._task.objective, arguments)

    @property
    def label_names(self) -> list[str]:
        """The labels, in the order of their numbers; empty for regression and for question answering."""
        self.setup()
        return list(self.reader.collator_arguments().get("labels", []))

    def train_dataloader(self) -> PassLoader | list[PassLoader]:
        """Returns batches of the training examples, each pass in a new order if shuffled; an empty list without a set."""
        self.setup("fit")
        return self.training_loader(self._passes("train"), uneven=False) if "train" in self.sets else []

    def val_dataloader(self) -> PassLoader | list[PassLoader]:
        """Returns batches of the validation examples in their order; an empty list without a set."""
        return self._evaluation("val")

    def test_dataloader(self) -> PassLoader | list[PassLoader]:
        """Returns batches of the test examples in their order; an empty list without a set."""
        return self._evaluation("test")

    def order(self) -> dict[str, object]:
        self.setup("fit")
        return {
            "data": self.sets["train"].fingerprint if "train" in self.sets else None,
            "ranks": self.replica().size,
            **{name: getattr(self, name) for name in ("train_batch_size", "shuffle_train", "seed")},
        }

    def samples_of(self, name: str, batch: int) -> NDArray[np.int64]:
        """Returns the indices of this rank's samples in batch number `batch` of the evaluated set `name`."""
        passes = self._passes(name)
        return passes.order.global_batch(batch)[passes.rank :: passes.num_ranks, 1]

    def _evaluation(self, name: str) -> PassLoader | list[PassLoader]:
        self.setup()
        return PassLoader(self._passes(name), self.num_workers, repeats=True) if name in self.sets else []

    def _passes(self, name: str) -> StoredPasses:
        training = name == "train"
        arguments = self.pass_arguments(training, getattr(self, f"{name}_batch_size"))
        return StoredPasses(sequences=self.sets[name], shuffle=training and self.shuffle_train, **arguments)

    def _column(self, default: str, name: str, rows: Mapping[str, Rows]) -> str:
        """Returns the column `name`; if it is the `default` and the rows lack it, the usual column of the task."""
        usual = str(getattr(OPTIONS["data"].get(self._task.name), f"{default}_column", name))
        first = next(iter(rows.values())).rows[0].values
        return usual if name == default and name not in first else name

    def _rows(self) -> dict[str, Rows]:
        path = self.dataset_name_or_path
        sources = {**({} if path is None else self._sources(str(path))), **self.row_sources}
        if not sources:
            raise ValueError("there is no data: give dataset_name_or_path, or call set_datasets")
        return {n: read_rows(sources[n], setting=f"the {n} set") for n in DEFAULT_SPLITS if n in sources}

    def _sources(self, path: str) -> Mapping[str, RowSource]:
        folder = Path(path).expanduser()
        splits = {name: getattr(self, f"{name}_split") for name in DEFAULT_SPLITS}
        listing: Any = ["train"]
        if folder.is_file():
            sources: Mapping[str, RowSource] = {"train": path}
        elif folder.is_dir() and (patterns := card_files(folder)):
            config = self.dataset_config_name or ""
            listing = of_config(folder, patterns, config)
            sources = {n: f"{path}{config and f':{config}'}@{s}" for n, s in splits.items() if s in listing}
        elif folder.is_dir():
            listing = splits_in(folder, ROWS)
            sources = {n: f"{path}@{s}" for n, s in splits.items() if split_files(folder, s, ROWS)}
        else:
            listing = load_hub(path, self.dataset_config_name, None)
            sources = {n: listing[split] for n, split in splits.items() if split in listing}
        for name, split in splits.items():
            is_needed = name == "train" and "train" not in self.row_sources
            if name not in sources and (is_needed or split != DEFAULT_SPLITS[name]):
                has = ", ".join(listing) or "none"
                raise ValueError(f"{path} has no split {split!r}; it has: {has}. Set {name}_split")
        return sources


def numbered_labels(rows: Mapping[str, Rows], label_column: str) -> list[str] | None:
    """Returns the names of integer labels, also in lists, so that each keeps its number; None for other labels."""
    if next(iter(rows.values())).class_names.get(label_column):
        return None
    cells = [to_python(row.values.get(label_column)) for part in rows.values() for row in part.rows]
    items = (one for cell in cells for one in (cell if isinstance(cell, list) else [cell]))
    labels = [one for one in items if not is_missing(one)]
    if not labels or any(isinstance(one, bool) or not isinstance(one, int) for one in labels):
        return None
    if (highest := max([1, *labels])) >= MOST_CLASSES:
        raise ValueError(
            f"the label {highest} is no class number: integers keep their numbers here, so a head would have "
            f"{highest + 1:,} classes; number the labels from 0, or write them as text"
        )
    return [str(number) for number in range(highest + 1)]
