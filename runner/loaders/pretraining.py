"""Text for pretraining with a plain `lightning.Trainer`."""

import logging
from functools import cached_property, partial
from typing import Any

from transformers import PreTrainedTokenizerBase

from iolaus.conf.values import check_choice
from iolaus.runner.data.batches import MASK_STREAM, VALIDATION_STREAM
from iolaus.runner.data.store.reader import TokenStore
from iolaus.runner.data.text.chunking import Chunker
from iolaus.runner.data.text.prepare import PreparedText, prepare_text
from iolaus.runner.data.text.tokenizer import load_tokenizer, token_arguments
from iolaus.runner.loaders.base import PassesDataModule, cache_folder, check_sizes
from iolaus.runner.loaders.passes import Passes, PassLoader, StoredPasses
from iolaus.runner.loaders.reading import DocumentReader, validation_sets
from iolaus.runner.loaders.streaming import StreamedPasses
from iolaus.runner.objectives import get_collator_cls
from iolaus.runner.objectives.row_batch import row_batch
from iolaus.runner.run.model_folder import model_folder

log = logging.getLogger("iolaus")

OBJECTIVES = ("mlm", "enhanced_mlm", "diffusion")


class PretrainingDataModule(PassesDataModule):
    """Documents as batches of an objective, for `lightning.Trainer` or any loop over its loaders.

    Text is tokenised once into `cache_dir`, or with `streaming` as it comes. Documents are cut at `max_sequence_length`.
    With `packing` a batch is one row of whole documents, at most `max_sequence_length * train_batch_size` tokens.
    `validation_documents`, a number or a share below 1, are held out of the training data if no validation set is named.
    `text_unit` is what a document is in text files: `line`, `paragraph` or `file`.

    Example:
        >>> data = PretrainingDataModule(text_file, tokenizer_folder, train_batch_size=4, max_sequence_length=32)
        >>> data.prepare_data()
        >>> data.setup("fit")
        >>> sorted(next(iter(data.train_dataloader())))
        ['attention_mask', 'input_ids', 'labels']
    """

    def __init__(
        self,
        train_dataset_name_or_path: str | list[str],
        pretrained_tokenizer_name_or_path: str,
        objective: str = "mlm",
        max_sequence_length: int = 512,
        val_dataset_name_or_path: str | list[str] | None = None,
        train_split: str | None = None,
        val_split: str | list[str] | None = None,
        file_format: str | None = None,
        text_column: str = "text",
        streaming: bool = False,
        shuffle: bool = False,
        num_shards: int | None = None,
        train_batch_size: int = 32,
        val_batch_size: int = 32,
        num_workers: int = 0,
        collator_kwargs: dict[str, Any] | None = None,
        packing: bool = False,
        packing_pad_to_budget: bool = False,
        cache_dir: str | None = None,
        data_kwargs: dict[str, Any] | None = None,
        text_unit: str = "line",
        validation_documents: float = 0,
        shuffle_buffer_size: int = 10_000,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)
        check_choice("objective", objective, OBJECTIVES)
        check_sizes(train_batch_size=train_batch_size, val_batch_size=val_batch_size)
        check_sizes(max_sequence_length=max_sequence_length, num_workers=num_workers)
        if streaming and validation_documents:
            raise ValueError(
                "streaming holds no documents out, as it never knows them all: name a validation set"
            )
        self.objective, self.tokenizer_name = objective, pretrained_tokenizer_name_or_path
        self.max_sequence_length = max_sequence_length
        self.streaming, self.shuffle, self.num_shards = streaming, shuffle, num_shards or 1
        self.train_batch_size, self.val_batch_size = train_batch_size, val_batch_size
        self.num_workers, self.collator_kwargs = num_workers, dict(collator_kwargs or {})
        self.packing, self.pad_to_budget = packing, packing_pad_to_budget
        self.cache_dir, self.validation_documents = cache_folder(cache_dir), validation_documents
        self.buffer_size, self.seed = shuffle_buffer_size, seed
        reader = DocumentReader(text_column, text_unit, file_format, streaming, data_kwargs)
        self.source = reader.open(train_dataset_name_or_path, train_split, "train")
        if val_split is not None and val_dataset_name_or_path is None:
            if isinstance(train_dataset_name_or_path, list):
                raise ValueError(
                    "val_split needs val_dataset_name_or_path, as there are several training sets"
                )
            val_dataset_name_or_path = train_dataset_name_or_path
        self.validation_sources = {
            name: reader.open(path, split, "validation")
            for name, (path, split) in validation_sets(val_dataset_name_or_path, val_split).items()
        }
        self.prepared: PreparedText | None = None

    def prepare_data(self) -> None:
        """Tokenises into the cache, unless that has been done for these very settings; a stream needs nothing."""
        if not self.streaming:
            self._prepare()

    def setup(self, stage: str | None = None) -> None:
        """Opens what `prepare_data` has left, for any stage."""
        if self.streaming or self.prepared is not None:
            return
        self.prepared = self._prepare()
        self.train = TokenStore(self.prepared.train)
        self.validation = {name: TokenStore(path) for name, path in self.prepared.validation.items()}

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the texts."""
        return load_tokenizer(model_folder(self.tokenizer_name))

    @cached_property
    def collator(self) -> Any:
        """The objective's collator, which knows all special tokens of the tokenizer."""
        known = {**token_arguments(self.tokenizer), "max_sequence_length": self.max_sequence_length}
        return get_collator_cls(self.objective)(**{**known, **self.collator_kwargs})

    @property
    def validation_names(self) -> list[str]:
        """The validation sets, in the order of their loaders."""
        return list(self.validation_sources if self.prepared is None else self.prepared.validation)

    def train_dataloader(self) -> PassLoader:
        """Batches of `train_batch_size` documents; a pass is every document once, in order unless shuffled."""
        self.setup("fit")
        return self.training_loader(self._passes(None), self.num_workers, uneven=self.streaming)

    def val_dataloader(self) -> list[PassLoader]:
        """One loader for each validation set, with the same masks in every pass; none without a set."""
        self.setup("validate")
        options: dict[str, Any] = {"repeats": True, "any_has_more": self.asking(self.streaming)}
        return [PassLoader(self._passes(name), self.num_workers, **options) for name in self.validation_names]

    def order(self) -> dict[str, Any]:
        """What the order of the training batches depends on."""
        self.setup("fit")
        kept = ("objective", "train_batch_size", "seed", "shuffle", "packing")
        order = {name: getattr(self, name) for name in kept}
        order |= {"tokens of a document": self.max_sequence_length, "ranks": self.ranks()[1]}
        if not self.streaming:
            return {**order, "data": self.train.fingerprint}
        workers = {"num_workers": self.num_workers} if self.packing else {}
        settings = self._passes(None).settings()  # type: ignore[attr-defined]
        return {**order, **settings, **workers, "source": repr(settings["source"])}

    def _prepare(self) -> PreparedText:
        return prepare_text(
            self.source,
            self.validation_sources,
            validation_documents=self.validation_documents,
            tokenizer=model_folder(self.tokenizer_name),
            tokenizer_kind="wordpiece",
            vocab_size=0,
            lowercase=False,
            max_length=self.max_sequence_length,
            long_documents="truncate",
            cache_dir=self.cache_dir,
            seed=self.seed,
            keep_repeated=True,
        )

    def _passes(self, name: str | None) -> Passes:
        """Passes over the training data, or over the validation set of that name."""
        training = name is None
        batch_size = self.train_batch_size if training else self.val_batch_size
        stream = MASK_STREAM if training else VALIDATION_STREAM
        shuffle = training and self.shuffle
        row_tokens = self.max_sequence_length * batch_size if self.packing else None
        filled = row_tokens if self.pad_to_budget else None
        collate = partial(row_batch, collator=self.collator, row_tokens=filled)
        shared = (collate, batch_size, self.seed, stream, *self.ranks(), row_tokens)
        if not self.streaming:
            return StoredPasses(*shared, self.train if name is None else self.validation[name], shuffle)
        source = self.source if name is None else self.validation_sources[name]
        chunker = Chunker(self.tokenizer.backend_tokenizer, self.max_sequence_length, "truncate")
        buffer_size = self.buffer_size if shuffle else 0
        return StreamedPasses(*shared, source, chunker, buffer_size, self.num_shards if training else 1)
