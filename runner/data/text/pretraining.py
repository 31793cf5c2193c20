"""Text for pretraining: prepared once into a cache, then served from memory-mapped stores."""

import math
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from iolaus.runner.config.custom_code import from_pretrained
from iolaus.runner.data.micro_batch import CollatorArguments, tokenizer_arguments
from iolaus.runner.data.module import GlobalBatchDataModule
from iolaus.runner.data.store.reader import TokenStore
from iolaus.runner.data.text.prepare import PreparedText, prepare_text
from iolaus.runner.data.text.sources import Source, open_source
from iolaus.runner.data.text.tokenizer import describe_vocabulary
from iolaus.runner.inference.export import model_folder


class PretrainingData(GlobalBatchDataModule):
    """Reads `source`, holds out validation documents, tokenises into the cache, and serves global batches.

    With `streaming` the class is `StreamedPretrainingData`, which tokenises as it reads.
    """

    train: TokenStore
    validation: dict[str, TokenStore]

    def __init__(
        self,
        source: Any,
        validation: dict[str, Any] | None,
        validation_documents: float,
        text_column: str,
        split: str,
        text_unit: str,
        tokenizer: str | None,
        tokenizer_kind: str,
        vocab_size: int,
        lowercase: bool,
        max_length: int,
        long_documents: str,
        cache_dir: str,
        seed: int,
        layout: str,
        micro_batch_tokens: int | None,
        micro_batch_size: int | None,
        num_workers: int,
        streaming: bool,
        shuffle_buffer_size: int,
    ) -> None:
        super().__init__(layout, micro_batch_tokens, micro_batch_size, num_workers)
        if shuffle_buffer_size < 0:
            raise ValueError(f"data.shuffle_buffer_size must be 0 or more, not {shuffle_buffer_size}")
        self.shuffle_buffer_size = shuffle_buffer_size
        reading: dict[str, Any] = {
            "text_column": text_column,
            "split": split,
            "text_unit": text_unit,
            "streaming": streaming,
        }
        self.source = open_source(source, **reading)
        self.validation_sources = {name: open_source(s, **reading) for name, s in (validation or {}).items()}
        self.validation_documents, self.split_seed = validation_documents, seed
        self.tokenizer_name = model_folder(tokenizer) if tokenizer else None
        self.tokenizer_kind = tokenizer_kind
        self.vocab_size, self.lowercase = vocab_size, lowercase
        self.max_length, self.long_documents = max_length, long_documents
        self.cache_dir = Path(cache_dir).expanduser()
        self.prepared: PreparedText | None = None

    @wraps(__init__)  # type: ignore[misc]  # signatures are read from here
    def __new__(cls, *args: Any, **settings: Any) -> "PretrainingData":  # noqa: D102  documented as __init__ is
        if cls is PretrainingData and settings.get("streaming"):
            from iolaus.runner.data.text.streamed import StreamedPretrainingData

            cls = StreamedPretrainingData
        return super().__new__(cls)

    def prepare_data(self) -> None:
        """Tokenises into the cache, unless that has been done; one process works, the others wait."""
        if self.prepared is not None:
            return
        self.prepared = self.prepare_sets(self.source, self.validation_sources, self.validation_documents)
        self.train = TokenStore(self.prepared.train)
        self.validation = {name: TokenStore(path) for name, path in self.prepared.validation.items()}

    def prepare_sets(
        self, source: Source, validation_sources: dict[str, Source], validation_documents: float
    ) -> PreparedText:
        """The stores of a source and its validation sets, made unless the cache has them."""
        return prepare_text(
            source,
            validation_sources,
            validation_documents=validation_documents,
            tokenizer=self.tokenizer_name,
            tokenizer_kind=self.tokenizer_kind,
            vocab_size=self.vocab_size,
            lowercase=self.lowercase,
            max_length=self.max_length,
            long_documents=self.long_documents,
            cache_dir=self.cache_dir,
            seed=self.split_seed,
        )

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer the stores were made with."""
        assert self.prepared is not None, "prepare_data comes first"
        tokenizer: PreTrainedTokenizerBase = from_pretrained(AutoTokenizer, self.prepared.tokenizer)
        return tokenizer

    def collator_arguments(self) -> CollatorArguments:
        """The arguments of the objective's collator that the data decides."""
        return {
            **tokenizer_arguments(self.tokenizer),
            "text_column": "text",
            "label_column": None,
            "max_sequence_length": self.max_length,
        }

    def fingerprint(self) -> str:
        """The fingerprint of the training store, which covers text, tokenizer and cutting."""
        return self.train.fingerprint

    def baselines(self) -> dict[str, float]:
        """No figures, as they would not apply to every loss: see `token_baselines`."""
        return {}

    def token_baselines(self) -> dict[str, float]:
        """Baselines of a loss in nats per token: ln(vocabulary), and each validation set's unigram entropy.

        Also each set's `tokens_per_byte`, where it came as text, to compare losses of different vocabularies by.
        """
        assert self.prepared is not None
        figures = {
            "unigram_entropy": self.prepared.unigram_entropy,
            "tokens_per_byte": self.prepared.tokens_per_byte,
        }
        of_sets = {f"val/{s}/{name}": value for name, sets in figures.items() for s, value in sets.items()}
        return {"uniform_entropy": math.log(len(self.tokenizer)), **of_sets}

    def describe(self) -> dict[str, str]:
        """Counts for the summary at the start."""
        assert self.prepared is not None
        store: Any = self.train
        held_out: dict[str, Any] = dict(self.validation)
        return {
            "source": self.source.describe(),
            "training": f"{self.prepared.documents['train']:,} documents, {len(store):,} sequences, "
            f"{store.num_tokens:,} tokens",
            "validation": ", ".join(f"{n}: {len(s):,} sequences" for n, s in held_out.items()) or "none",
            "vocabulary": describe_vocabulary(self.tokenizer),
            "global batch": f"{self.sampler.global_batch_size} sequences, "
            f"about {self.sampler.global_batch_size * store.num_tokens // len(store):,} tokens",
            "micro-batch": f"{self.micro_batch_tokens or 'any number of'} tokens, {self.layout}",
        }
