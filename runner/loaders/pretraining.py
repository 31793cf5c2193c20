"""Text for pretraining with a plain `lightning.Trainer`."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.data import pretraining as options
from tiryns.conf.values import check_choice
from tiryns.runner.data.micro_batch import tokenizer_arguments
from tiryns.runner.data.read.documents import Source
from tiryns.runner.data.read.opened import Reading
from tiryns.runner.data.store.reader import TokenStore, sampled_counts
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.prepare import PreparedText, prepare_text
from tiryns.runner.loaders.base import PassesDataModule, open_splits, validation_sets
from tiryns.runner.loaders.passes import PassLoader, StoredPasses, StreamedPasses
from tiryns.runner.objectives import get_collator_cls
from tiryns.runner.run.files import own_cache
from tiryns.runner.run.model_folder import model_folder

OBJECTIVES = ("mlm", "enhanced_mlm", "diffusion")


@dataclass(eq=False, repr=False)
class PretrainingDataModule(PassesDataModule):
    """Documents as batches of an objective, for `lightning.Trainer` or any loop over its loaders.

    Text is tokenised once into `cache_dir`, or while reading with `streaming`, and cut at `max_sequence_length`.
    With `packing` a batch is one row of whole documents, at most `max_sequence_length * train_batch_size` tokens.
    `cache_dir` is by default the environment variable TIRYNS_CACHE, else ~/.cache/tiryns.
    `validation_documents`, a number or a share below 1, are held out of the training data if no validation set is named.
    `text_unit` is a document in text files: `line`, `paragraph` or `file`.

    Example:
        >>> data = PretrainingDataModule(text_file, tokenizer_folder, train_batch_size=4, max_sequence_length=32)
        >>> data.prepare_data()
        >>> data.setup("fit")
        >>> sorted(next(iter(data.train_dataloader())))
        ['attention_mask', 'input_ids', 'labels']
    """

    train_dataset_name_or_path: str | list[str]
    pretrained_tokenizer_name_or_path: str
    objective: str = "mlm"
    max_sequence_length: int = 512
    val_dataset_name_or_path: str | list[str] | None = None
    train_split: str | None = None
    val_split: str | list[str] | None = None
    file_format: str | None = None
    text_column: str = "text"
    streaming: bool = False
    shuffle: bool = False
    num_shards: int | None = None
    train_batch_size: int = 32
    val_batch_size: int = 32
    num_workers: int = 0
    collator_kwargs: dict[str, Any] | None = None
    packing: bool = False
    packing_pad_to_budget: bool = False
    cache_dir: str | None = None
    data_kwargs: dict[str, object] | None = None
    text_unit: str = "line"
    validation_documents: float = 0
    shuffle_buffer_size: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("objective", self.objective, OBJECTIVES)
        if self.streaming and self.validation_documents:
            problem = "streaming holds no documents out, as it never knows them all: name a validation set"
            raise ValueError(problem)
        train, validation = self.train_dataset_name_or_path, self.val_dataset_name_or_path
        if self.val_split is not None and validation is None:
            if isinstance(train, list):
                problem = "val_split needs val_dataset_name_or_path, as there are several training sets"
                raise ValueError(problem)
            validation = train
        reading = {
            "text_column": self.text_column, "text_unit": self.text_unit, "streaming": self.streaming,
            "options": self.data_kwargs, "reading": Reading(format=self.file_format or "auto"),
        }  # fmt: skip
        self.source: Source = open_splits(train, self.train_split, "train", **reading)
        self.validation_sources: dict[str, Source] = {
            name: open_splits(path, split, "validation", **reading)
            for name, (path, split) in validation_sets(validation, self.val_split).items()
        }
        self.prepared: PreparedText | None = None

    def prepare_data(self) -> None:
        """Tokenises into the cache, unless the cache has the result for these settings; does nothing for a stream."""
        self.setup()

    def setup(self, stage: str | None = None) -> None:
        """Opens the result of `prepare_data`, for any stage."""
        if self.streaming or self.prepared is not None:
            return
        settings = options.PretrainingData(
            validation_documents=self.validation_documents,
            tokenizer=model_folder(self.pretrained_tokenizer_name_or_path),
            max_length=self.max_sequence_length,
            long_documents="truncate",
            cache_dir=str(own_cache(self.cache_dir)),
            seed=self.seed,
        )
        self.prepared = prepare_text(self.source, self.validation_sources, settings, keep_repeated=True)
        self.train = TokenStore(self.prepared.train)
        self.validation = {name: TokenStore(path) for name, path in self.prepared.validation.items()}

    @cached_property
    def collator(self) -> Any:
        """The objective's collator, which knows all special tokens of the tokenizer."""
        arguments: dict[str, Any] = {
            **tokenizer_arguments(self.tokenizer),
            "max_sequence_length": self.max_sequence_length,
            "token_counts": self._token_counts,
        }
        return self.make_collator(get_collator_cls(self.objective), arguments)

    def _token_counts(self) -> NDArray[np.int64]:
        """Returns how often each token occurs in the training data; raises ValueError for a stream."""
        if self.streaming:
            raise ValueError("favour=rare counts the tokens of the training data first: set streaming=False")
        self.setup()
        return sampled_counts(self.train, len(self.tokenizer))

    @property
    def validation_names(self) -> list[str]:
        """The validation sets, in the order of their loaders."""
        return list(self.validation_sources if self.prepared is None else self.prepared.validation)

    def train_dataloader(self) -> PassLoader:
        """Returns batches of `train_batch_size` documents; a pass is every document once, in order unless shuffled."""
        self.setup("fit")
        return self.training_loader(self._passes(None), uneven=self.streaming)

    def val_dataloader(self) -> list[PassLoader]:
        """Returns one loader for each validation set, with the same masks in every pass; empty without a set."""
        self.setup("validate")
        passes, check = map(self._passes, self.validation_names), self.end_check(self.streaming)
        return [PassLoader(one, self.num_workers, repeats=True, any_has_more=check) for one in passes]

    def order(self) -> dict[str, object]:
        self.setup("fit")
        order = {
            **{n: getattr(self, n) for n in ("objective", "train_batch_size", "seed", "shuffle", "packing")},
            "tokens of a document": self.max_sequence_length,
            "ranks": self.replica().size,
        }
        passes = self._passes(None)
        if isinstance(passes, StoredPasses):
            return {**order, "data": self.train.fingerprint}
        workers = {"num_workers": self.num_workers} if self.packing else {}
        return {**order, **passes.settings(), **workers}

    def _passes(self, name: str | None) -> StoredPasses | StreamedPasses:
        """Returns passes over the validation set `name`, or over the training data for None."""
        training = name is None
        batch_size = self.train_batch_size if training else self.val_batch_size
        row_tokens = self.max_sequence_length * batch_size if self.packing else None
        arguments = self.pass_arguments(training, batch_size)
        arguments |= {"row_tokens": row_tokens, "pad_rows": self.packing_pad_to_budget}
        shuffle = training and self.shuffle
        if not self.streaming:
            sequences = self.train if name is None else self.validation[name]
            return StoredPasses(sequences=sequences, shuffle=shuffle, **arguments)
        return StreamedPasses(
            source=self.source if name is None else self.validation_sources[name],
            chunker=Chunker(self.tokenizer.backend_tokenizer, self.max_sequence_length, "truncate"),
            buffer_size=self.shuffle_buffer_size if shuffle else 0,
            num_shards=(self.num_shards or 1) if training else 1,
            **arguments,
        )
