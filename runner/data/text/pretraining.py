"""Text for pretraining: prepared once into a cache, then served from memory-mapped stores."""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, wraps
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from tiryns.conf.data import pretraining as options
from tiryns.conf.phases import Phase
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.config.loading import from_pretrained
from tiryns.runner.data.batches import GatheredSequences, LengthWarmup
from tiryns.runner.data.evaluated import by_name
from tiryns.runner.data.micro_batch import CollatorArguments, tokenizer_arguments
from tiryns.runner.data.module import GlobalBatchDataModule
from tiryns.runner.data.read.documents import Source, open_source, tables_of
from tiryns.runner.data.read.opened import reading_of
from tiryns.runner.data.read.rows import described_tables
from tiryns.runner.data.store.reader import TokenStore, sampled_counts
from tiryns.runner.data.store.sharded import ShardedStore
from tiryns.runner.data.store.writer import key_of
from tiryns.runner.data.text.holdout import Part, divide
from tiryns.runner.data.text.prepare import PreparedText, prepare_text
from tiryns.runner.data.text.tokenizer import MASKING
from tiryns.runner.data.text.vocabulary import describe_vocabulary
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.samplers import GlobalBatchSampler
from tiryns.runner.samplers.base import SeamlessSampler
from tiryns.runner.samplers.mixed import order_of
from tiryns.runner.samplers.phased import Draws


class NamedStore(NamedTuple):
    """One store of training sequences, with the data module that has prepared it."""

    name: str
    """The name of the source in a mixture, else empty."""
    data: "PretrainingData"
    """The prepared data module of the source."""
    label: str
    """The name of the store's order: the source's name, followed by `@length` if the length differs from the run's."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the training sequences."""
        return str(self.data.train.fingerprint)


def join_stores(stores: Sequence[NamedStore]) -> Any:
    """Joins the training sequences of all stores, one store after the other. Returns a single store as it is."""
    if len(stores) == 1:
        return stores[0].data.train
    shards = [store.data.train for store in stores]
    return ShardedStore(shards, key_of({"joined": [store.fingerprint for store in stores]}))


class PretrainingData(GlobalBatchDataModule):
    """Tokenises documents into the cache and serves global batches.

    With `streaming`, the object is a `StreamedPretrainingData`; with a source `store:FOLDER`, a `StoredPretrainingData`.

    Example: `tiryns data=files data.source='books/*.txt' data.vocab_size=8192`
    """

    settings: options.PretrainingData
    train: TokenStore
    validation: dict[str, TokenStore]
    phase_groups: tuple[str, ...] = ("data", "sampler", "objective")
    stores: Sequence[NamedStore] = ()
    """The stores of `train` in order, if there are several: one per source and per sequence length of phases."""
    needed_tokens: Sequence[str] = MASKING
    """Special tokens that the tokenizer must have: by default those for masking, unless the objective masks nothing."""

    @takes_settings(options.PretrainingData)
    def __init__(self, settings: options.PretrainingData) -> None:
        super().__init__(settings)
        self.max_length = settings.max_length
        self.source = self._open(settings.source)
        validation = by_name(settings.validation, "validation") if settings.validation else {}
        self.validation_sources = {name: self._open(source) for name, source in validation.items()}
        self.tokenizer_name = model_folder(settings.tokenizer) if settings.tokenizer else None
        self.exclusions: NDArray[np.uint64] | None = None
        """Ascending digests of documents that are not trained on because another source holds them out."""
        self.prepared: PreparedText | None = None
        self.log_lines: set[str] = set()
        """Lines that are already in the log; if documents are read again for another length, nothing is logged twice."""

    @wraps(__init__)  # type: ignore[misc]  # signatures are read from here
    def __new__(cls, *args: object, **settings: object) -> "PretrainingData":  # documented as __init__ is
        if cls is PretrainingData and str(settings.get("source")).startswith("store:"):
            if other := next((name for name in ("streaming", "validation") if settings.get(name)), None):
                reason = "has its own held-out documents" if other == "validation" else "is tokenised already"
                problem = f"data.{other} cannot be given for data.source=store:FOLDER: the store {reason}"
                raise ValueError(problem)
            from tiryns.runner.data.text.stored import StoredPretrainingData

            cls = StoredPretrainingData
        elif cls is PretrainingData and settings.get("streaming"):
            from tiryns.runner.data.text.streamed import StreamedPretrainingData

            cls = StreamedPretrainingData
        return super().__new__(cls)

    def prepare_data(self) -> None:
        """Tokenises the documents into the cache if it lacks them. One process works, the others wait."""
        if self.prepared is not None:
            return
        holdout = (self.validation_sources, self.settings.validation_documents)
        self.prepared = self.prepare_sets(self.source, *holdout)
        self.train = TokenStore(self.prepared.train)
        self.validation = {name: TokenStore(path) for name, path in self.prepared.validation.items()}
        self.prepare_lengths()

    def prepare_lengths(self) -> None:
        """If the run has phases, prepares the text in each phase's sequence length and joins all stores in `train`."""
        if not self.phases:
            return
        self.stores = [NamedStore("", self.at_length(self.max_length), "")]
        for phase in self.phases:
            self.add_store("", self, self.length_of(phase), phase)
        self.train = join_stores(self.stores)

    def add_store(self, name: str, source: "PretrainingData", length: int, phase: Phase) -> None:
        """Adds the store of a source with sequences of `length` to `stores`, for `phase`, unless it is there already."""
        if not any((store.name, store.data.max_length) == (name, length) for store in self.stores):
            try:
                data = source.at_length(length)
            except ValueError as error:
                raise ValueError(f"phase {phase.name}: {error}") from error
            label = name if length == self.max_length else f"{name}@{length}"
            self.stores = [*self.stores, NamedStore(name, data, label)]

    def length_of(self, phase: Phase) -> int:
        return int(phase.data.get("max_length") or self.max_length)

    def at_length(self, max_length: int) -> "PretrainingData":
        """Returns the same text, prepared in sequences of another length; its validation sets are not used."""
        other = copy(self)
        other.phases, other.stores = [], ()
        if max_length != self.max_length:
            other.settings = replace(self.settings, max_length=max_length, length_warmup_from=None)
            other.max_length, other.prepared = max_length, None
            other.prepare_data()
        return other

    def prepare_sets(
        self, source: Source, validation_sources: dict[str, Source], validation_documents: float
    ) -> PreparedText:
        """Returns the stores of a source and its validation sets, made unless the cache has them."""
        settings = replace(
            self.settings, tokenizer=self.tokenizer_name, validation_documents=validation_documents
        )
        return prepare_text(
            source, validation_sources, settings, exclusions=self.exclusions, needed=self.needed_tokens,
            log_lines=self.log_lines,
        )  # fmt: skip

    def document_parts(self) -> dict[str, Part]:
        """Reads the documents once. Returns the parts of the training and validation sets."""
        holdout = (self.validation_sources, self.settings.validation_documents, self.settings.seed)
        return divide(self.source, *holdout, exclusions=self.exclusions, log_lines=self.log_lines)

    def _open(self, source: object) -> Source:
        settings = self.settings
        how = (settings.text_column, settings.split, settings.text_unit, settings.streaming)
        return open_source(source, *how, reading=reading_of(settings))

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer the stores were made with."""
        assert self.prepared is not None, "prepare_data comes first"
        tokenizer: PreTrainedTokenizerBase = from_pretrained(AutoTokenizer, self.prepared.tokenizer)
        return tokenizer

    @property
    def whole(self) -> TokenStore:
        return self.stores[0].data.train if self.stores else self.train

    def _draws(self, whole: GlobalBatchSampler) -> tuple[list[SeamlessSampler], list[Draws]]:
        places = {store.data.max_length: place for place, store in enumerate(self.stores)}
        first = cast(SeamlessSampler, whole)
        orders = [first, *(order_of(first, store.data.train, store.label) for store in self.stores[1:])]
        draws = []
        for part, phase in zip(self.parts, self.phases, strict=False):
            place = places[self.length_of(phase)]
            store = self.stores[place]
            shares = {store.label: store.fingerprint} if place else None
            draws.append(Draws(part.steps, (place,), (1,), shares, self._sizes(part, store.data.train)))
        return orders, draws

    def _length_warmup(self, max_steps: int) -> LengthWarmup | None:
        """Returns the length warm-up of the settings; raises ValueError if it reaches into a phase of another length."""
        begun, warmup = 0, LengthWarmup.of(self.settings, max_steps, self.tokenizer.all_special_ids)
        if warmup is None:
            return None
        for part, phase in zip(self.parts, self.phases, strict=False):
            if begun < warmup.steps and self.length_of(phase) != self.max_length:
                raise ValueError(
                    f"data.length_warmup_steps: the warm-up to data.max_length={self.max_length} ends at step "
                    f"{warmup.steps:,}, and the phase {part.name} has sequences of {self.length_of(phase)} tokens "
                    f"from step {begun + 1:,} on: the warm-up must end before that step"
                )
            begun += part.steps
        return warmup

    def collator_arguments(self) -> CollatorArguments:
        """Returns the arguments of the objective's collator that the data decides."""
        return {
            **tokenizer_arguments(self.tokenizer),
            "text_column": "text",
            "label_column": None,
            "max_sequence_length": max([self.max_length, *map(self.length_of, self.phases)]),
            "token_counts": self.token_counts,
        }

    def token_counts(self) -> NDArray[np.int64]:
        """Returns how often each token of the vocabulary occurs in training sequences; in a sample if they are many."""
        return sampled_counts(self.train, len(self.tokenizer))

    def has_targets(self, sequences: GatheredSequences) -> bool:
        batches = self.evaluation_batches(sequences, 0, 1)
        return any(batches[number]["weight"] for number in range(len(batches)))

    def fingerprint(self) -> str:
        """Returns the fingerprint of the training store, which covers text, tokenizer and cutting."""
        return self.whole.fingerprint

    def lineage(self) -> dict[str, object]:
        sources = {"train": self.source, **self.validation_sources}
        return {**super().lineage(), "sources": {name: one.fingerprint() for name, one in sources.items()}}

    def token_baselines(self) -> dict[str, float]:
        """Returns baselines of a loss in nats per token: ln(vocabulary), and each validation set's unigram entropy.

        Also returns `tokens_per_byte` of each set that came as text, to compare losses of different vocabularies.
        """
        baselines = {"uniform_entropy": math.log(len(self.tokenizer))}
        for name in ("unigram_entropy", "tokens_per_byte") if self.prepared else ():
            of_sets: dict[str, float] = getattr(self.prepared, name)
            baselines |= {f"val/{set_name}/{name}": value for set_name, value in of_sets.items()}
        return baselines

    def describe(self) -> dict[str, str]:
        """Counts for the summary at the start."""
        training, global_batch = self._describe_training()
        validation = ", ".join(f"{name}: {len(store):,} sequences" for name, store in self.validation.items())
        tables = tables_of(self.source)
        phases = ", ".join(f"{part.name} {part.steps:,} steps" for part in self.parts)
        read = next(iter(self.validation.values()), ()) if self.streamed else self.train
        return {
            "source": self.source.describe(), **({"read": described_tables(tables)} if tables else {}),
            "training": training, "validation": validation or "none",
            "vocabulary": describe_vocabulary(self.tokenizer, read), "global batch": global_batch,
            **({"phases": phases} if phases else {}),
            "micro-batch": f"{self.micro_batch_tokens or 'any number of'} tokens, {self.layout}",
        }  # fmt: skip

    def _describe_training(self) -> tuple[str, str]:
        """Returns a description of the training data (without phases), and one of a global batch."""
        assert self.prepared is not None
        size, whole = self.sampler.global_batch_size, self.whole
        documents, mean = self.prepared.documents["train"], size * whole.num_tokens // len(whole)
        training = f"{documents:,} documents, {len(whole):,} sequences, {whole.num_tokens:,} tokens"
        return training, f"{size} sequences, about {mean:,} tokens"
