"""Labelled data for finetuning with a plain `lightning.Trainer`."""

from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from iolaus.conf.values import check_choice
from iolaus.runner.data.batches import MASK_STREAM, VALIDATION_STREAM
from iolaus.runner.data.labelled.finetuning import TASKS, make_task
from iolaus.runner.data.labelled.task import TaskSequences
from iolaus.runner.data.read.files import is_saved, split_files, splits_in
from iolaus.runner.data.read.task_readers import Rows, read_rows
from iolaus.runner.data.text.tokenizer import load_tokenizer, token_arguments
from iolaus.runner.loaders.base import PassesDataModule, check_sizes
from iolaus.runner.loaders.passes import PassLoader, StoredPasses
from iolaus.runner.objectives import get_collator_cls
from iolaus.runner.objectives.row_batch import row_batch
from iolaus.runner.run.model_folder import model_folder

DEFAULT_SPLITS = {"train": "train", "val": "validation", "test": "test"}
READING: dict[str, Any] = {"format": "auto", "word_field": 0, "tag_field": None}

UNCOMMON: dict[str, Any] = {"id_column": None, "problem_type": "auto", "label_separator": None}
"""What a task may be told of its rows that this data module has no arguments for."""

LONGEST_STRIDE = 128
"""Tokens that neighbouring windows of a context share, unless they are short."""


class FinetuningDataModule(PassesDataModule):
    """Training, validation and test examples of a task, as batches of its collator.

    They come from a folder with a file for each split, a data set that `datasets` has saved, a hub name, or from code
    (`set_datasets`). Labels that are text are numbered in their order, by the training examples; integers keep their
    numbers. `pair_column` names the second text of pairs to classify.

    Example:
        >>> rows = [{"text": "seven herons", "label": 0}, {"text": "an old bridge", "label": 1}]
        >>> data = FinetuningDataModule("classification", tokenizer_folder, max_sequence_length=16)
        >>> data.set_datasets(train=rows, val=rows)
        >>> data.setup("fit")
        >>> next(iter(data.val_dataloader()))["labels"].tolist()
        [0, 1]
    """

    def __init__(
        self,
        task: str,
        pretrained_tokenizer_name_or_path: str,
        dataset_name_or_path: str | None = None,
        dataset_config_name: str | None = None,
        max_sequence_length: int = 512,
        train_split: str = "train",
        val_split: str = "validation",
        test_split: str = "test",
        text_column: str = "text",
        label_column: str = "label",
        train_batch_size: int = 32,
        val_batch_size: int = 32,
        test_batch_size: int = 32,
        num_workers: int = 0,
        shuffle_train: bool = True,
        collator_kwargs: dict[str, Any] | None = None,
        pair_column: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)
        check_choice("task", task, TASKS)
        sizes = {"train": train_batch_size, "val": val_batch_size, "test": test_batch_size}
        check_sizes(**{f"{name}_batch_size": size for name, size in sizes.items()})
        check_sizes(max_sequence_length=max_sequence_length, num_workers=num_workers)
        self.task_name, self.tokenizer_name = task, pretrained_tokenizer_name_or_path
        self.path = None if dataset_name_or_path is None else str(dataset_name_or_path)
        self.config_name, self.max_sequence_length = dataset_config_name, max_sequence_length
        self.splits = {"train": train_split, "val": val_split, "test": test_split}
        self.text_column, self.label_column, self.pair_column = text_column, label_column, pair_column
        self.batch_sizes, self.num_workers = sizes, num_workers
        self.shuffle_train, self.collator_kwargs, self.seed = shuffle_train, dict(collator_kwargs or {}), seed
        self.given: dict[str, Any] = {}
        self.sets: dict[str, TaskSequences] = {}

    def set_datasets(self, train: Any = None, val: Any = None, test: Any = None) -> None:
        """Takes data made in code, any set alone: a `datasets.Dataset`, or a list of dicts."""
        given = {"train": train, "val": val, "test": test}
        self.given = {name: rows for name, rows in given.items() if rows is not None}
        self.sets = {}

    def prepare_data(self) -> None:
        """Loads the data set and the tokenizer once, so that they are downloaded before other processes ask for them."""
        self._rows()
        assert self.tokenizer is not None

    def setup(self, stage: str | None = None) -> None:
        """Reads and tokenises all sets, for any stage.

        Raises:
            ValueError: no data, a split that is not there, or rows that are not of the task; they are named.
        """
        if self.sets:
            return
        rows = self._rows()
        self.task = self._make_task(rows)
        examples = {name: self.task.examples(found, labelled=name != "test") for name, found in rows.items()}
        first = next(iter(rows))
        self.task.learn(examples[first], rows[first])
        self.sets = {
            name: self.task.tokenize(some, self.tokenizer, self.max_sequence_length, training=name == "train")
            for name, some in examples.items()
        }
        self.collator = self._make_collator()

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the model to finetune."""
        return load_tokenizer(model_folder(self.tokenizer_name), needed=("pad",))

    @property
    def label_names(self) -> list[str]:
        """The labels, in the order of their numbers; none to regress numbers or to answer questions."""
        self.setup()
        return list(self.task.collator_arguments().get("labels", []))

    def train_dataloader(self) -> PassLoader | list[PassLoader]:
        """Batches of the training examples, each pass in another order; an empty list without any."""
        self.setup("fit")
        if "train" not in self.sets:
            return []
        return self.training_loader(self._passes("train"), self.num_workers, uneven=False)

    def val_dataloader(self) -> PassLoader | list[PassLoader]:
        """Batches of the validation examples in their order; an empty list without any."""
        return self._evaluation("val")

    def test_dataloader(self) -> PassLoader | list[PassLoader]:
        """Batches of the test examples in their order; an empty list without any."""
        return self._evaluation("test")

    def order(self) -> dict[str, Any]:
        """What the order of the training batches depends on."""
        self.setup("fit")
        data = self.sets["train"].fingerprint if "train" in self.sets else None
        settings = {"shuffle_train": self.shuffle_train, "seed": self.seed, "ranks": self.ranks()[1]}
        return {"data": data, "train_batch_size": self.batch_sizes["train"], **settings}

    def samples_of(self, name: str, batch: int) -> Any:
        """Which samples of an evaluated set its batch of that number has, on this rank."""
        passes = self._passes(name)
        return passes.order.epoch_order(0, *passes.bounds(batch))[passes.rank :: passes.num_ranks]

    def _evaluation(self, name: str) -> PassLoader | list[PassLoader]:
        self.setup()
        if name not in self.sets:
            return []
        return PassLoader(self._passes(name), self.num_workers, repeats=True)

    def _passes(self, name: str) -> StoredPasses:
        training = name == "train"
        collate = partial(row_batch, collator=self.collator)
        stream = MASK_STREAM if training else VALIDATION_STREAM
        shared = (collate, self.batch_sizes[name], self.seed, stream, *self.ranks(), None)
        return StoredPasses(*shared, self.sets[name], training and self.shuffle_train)

    def _make_task(self, rows: Mapping[str, Rows]) -> Any:
        options = self.collator_kwargs
        return make_task(
            self.task_name,
            text_column=self._column("text", self.text_column, "question", rows),
            pair_column=self.pair_column,
            context_column=options.get("context_column", "context"),
            label_column=self._column("label", self.label_column, "answers", rows),
            labels=numbered_labels(rows, self.label_column, self.task_name),
            doc_stride=options.get("doc_stride", min(LONGEST_STRIDE, self.max_sequence_length // 4)),
            **UNCOMMON,
        )

    def _column(self, default: str, given: str, of_questions: str, rows: Mapping[str, Rows]) -> str:
        """The column that was given; of questions the usual one, where none was and there is no such column."""
        if self.task_name != "question_answering" or given != default:
            return given
        first = next(iter(rows.values())).rows[0].values
        return given if given in first else of_questions

    def _make_collator(self) -> Any:
        known, unknown = token_arguments(self.tokenizer), self.tokenizer.unk_token_id
        if known["mask_token_id"] is None:
            known["mask_token_id"] = known["pad_token_id"]
        known["special_token_ids"] = [i for i in known["special_token_ids"] if i != unknown]
        known |= {n: getattr(self, n) for n in ("text_column", "label_column", "max_sequence_length")}
        known |= self.task.collator_arguments()
        return get_collator_cls(self.task_name)(**{**known, **self.collator_kwargs})

    def _rows(self) -> dict[str, Rows]:
        """The rows of the sets there are, training first.

        Raises:
            ValueError: none at all, an empty one, or a split that was asked for and is not there.
        """
        found = {} if self.path is None else self._loaded(self.path)
        found |= {name: read_rows(rows, **READING) for name, rows in self.given.items()}
        if not found:
            raise ValueError("there is no data: give dataset_name_or_path, or call set_datasets")
        for name, rows in found.items():
            if not rows.rows:
                raise ValueError(f"the {name} set ({rows.description}) holds no examples")
        return {name: found[name] for name in DEFAULT_SPLITS if name in found}

    def _loaded(self, path: str) -> dict[str, Rows]:
        """The splits of a path or hub name, by what they are for."""
        folder = Path(path).expanduser()
        if folder.is_file():
            return {"train": read_rows(str(folder), **READING)}
        if folder.is_dir() and not is_saved(folder):
            known: Iterable[str] = splits_in(folder)
            files = {split: split_files(folder, split) for split in self.splits.values()}
            found: dict[str, Any] = {split: list(map(str, some)) for split, some in files.items() if some}
        else:
            known = found = load_splits(path, self.config_name)
        for name, split in self.splits.items():
            needed = name == "train" and "train" not in self.given
            if split not in found and (needed or split != DEFAULT_SPLITS[name]):
                raise ValueError(
                    f"{path} has no split {split!r}; it has: {', '.join(known) or 'none'}. Set {name}_split"
                )
        there = {name: found[split] for name, split in self.splits.items() if split in found}
        return {name: read_rows(rows, **READING) for name, rows in there.items()}


def load_splits(path: str, config_name: str | None) -> dict[str, Any]:
    """The splits by name of a data set that `datasets` has saved, or of one of the hub; a single one is `train`.

    Raises:
        FileNotFoundError: there is no such folder, and no data set of that name that can be loaded.
    """
    from datasets import load_dataset, load_from_disk

    if Path(path).expanduser().is_dir():
        loaded: Any = load_from_disk(str(Path(path).expanduser()))
    else:
        try:
            loaded = load_dataset(path, config_name)
        except Exception as error:  # connection, offline mode, unknown name or configuration
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise FileNotFoundError(
                f"{path!r} is no file or folder here, and no data set that could be loaded from the hub ({reason})"
            ) from error
    return dict(loaded) if isinstance(loaded, Mapping) else {"train": loaded}


def numbered_labels(rows: Mapping[str, Rows], label_column: str, task: str) -> list[str] | None:
    """Names of labels that are integers, so that each keeps its number; None where they are something else."""
    if task == "question_answering" or any(found.class_names.get(label_column) for found in rows.values()):
        return None
    labels: list[Any] = [row.values.get(label_column) for found in rows.values() for row in found.rows]
    if task == "token_classification":
        labels = [one for label in labels for one in (label if isinstance(label, list | tuple) else [label])]
    if any(isinstance(one, bool) or not isinstance(one, int) for one in labels):
        return None
    return [str(number) for number in range(max([1, *labels]) + 1)]
