"""Text for pretraining as a stream: nothing on disk, and no pass over it before the first batch."""

import math
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from iolaus.runner.data.micro_batch import Collate
from iolaus.runner.data.read.documents import Source
from iolaus.runner.data.store.cached import key_of
from iolaus.runner.data.store.reader import TokenStore
from iolaus.runner.data.text.chunking import Chunker
from iolaus.runner.data.text.holdout import HELD_OUT, digest
from iolaus.runner.data.text.prepare import PreparedText, token_figures
from iolaus.runner.data.text.pretraining import PretrainingData
from iolaus.runner.data.text.stream import FirstDocuments, OtherDocuments
from iolaus.runner.data.text.streamed_batches import StreamedGlobalBatches, StreamLoader, StreamOrder
from iolaus.runner.data.text.tokenizer import load_tokenizer, tokenizer_fingerprint
from iolaus.runner.run.replicas import replica_of


class StreamedPretrainingData(PretrainingData):
    """The same settings, served from a stream: `data.streaming=true`.

    A global batch is the next documents of the stream, which is shuffled in a buffer of `shuffle_buffer_size` documents.
    Every process reads the whole text, and tokenises only its own documents. So the order does not depend on ranks and
    loader processes, and a run resumes with other numbers of them; it reads the text up to its position.

    Validation sets, or the first `validation_documents` of the stream, are prepared as without streaming, and none of
    their texts is trained on.
    """

    streamed = True

    def prepare_data(self) -> None:
        """Prepares the validation sets, which are read again at each validation.

        Raises:
            ValueError: no tokenizer, or a share of documents to hold out, as nobody knows how many there are.
        """
        if hasattr(self, "stream_source"):
            return
        if self.tokenizer_name is None:
            raise ValueError(
                "data.streaming=true cannot train a tokenizer, which takes a pass over the data: set data.tokenizer to "
                "the name or folder of one, such as the model/ of a run on a part of it"
            )
        sources = self.validation_sources or self._held_out()
        prepared = {name: self.prepare_sets(source, {}, 0) for name, source in sources.items()}
        self.validation = {name: TokenStore(found.train) for name, found in prepared.items()}
        if prepared:
            figures = token_figures(self.validation, self.tokenizer.all_special_ids)
            paths = {name: found.train for name, found in prepared.items()}
            self.prepared = PreparedText(Path(), paths, Path(), {}, **figures)
        left_out = {digest(document) for source in sources.values() for document in source.documents()}
        self.stream_source: Source = OtherDocuments(self.source, left_out)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that the setting names."""
        assert self.tokenizer_name is not None
        return load_tokenizer(self.tokenizer_name)

    def connect(
        self,
        make_sampler: Callable[..., Any],
        collator: Collate,
        max_steps: int,
        max_epochs: float | None,
        seed: int,
        accept_changes: bool,
    ) -> int:
        """Takes the sampler's settings and the objective; returns the number of global batches of the run.

        Raises:
            ValueError: a sampler that chooses documents by their number, or a length in epochs.
        """
        name = getattr(getattr(make_sampler, "func", make_sampler), "__name__", "")
        if name not in ("Shuffled", "Sequential"):
            raise ValueError(
                f"the sampler {name} chooses samples by their number, but data.streaming=true takes them as they come: "
                "choose sampler=shuffled (data.shuffle_buffer_size), sampler=sequential or data.streaming=false"
            )
        if max_steps < 1:
            raise ValueError(
                "how many documents an epoch has only reading all of them would tell: give trainer.max_steps instead of "
                "trainer.max_epochs, or data.streaming=false"
            )
        settings: dict[str, Any] = make_sampler.keywords  # type: ignore[attr-defined]
        buffer_size = self.settings.shuffle_buffer_size if name == "Shuffled" else 0
        self.collator, self.seed, self.accept_changes = collator, seed, accept_changes
        self.sampler = StreamOrder(  # type: ignore[assignment]
            max_steps, settings["global_batch_size"], settings["seed"], buffer_size
        )
        self._epoch = 0
        return max_steps

    def train_dataloader(self) -> Any:
        """Global batches from the first that is not yet consumed."""
        assert self.trainer is not None
        replica = replica_of(self.trainer)
        batches = self.train_batches(replica.rank, replica.size)
        batches.start = self.start
        return StreamLoader(batches, self, replica, self.trainer.strategy.root_device)

    def train_batches(self, rank: int, num_ranks: int) -> "StreamedGlobalBatches":  # type: ignore[override]
        """The share that one of so many ranks has of every global batch."""
        chunker = Chunker(self.tokenizer.backend_tokenizer, self.max_length, self.settings.long_documents)
        cut = self.partitioning
        return StreamedGlobalBatches(
            self.stream_source, chunker, self.sampler, self.collator, self.seed, rank, num_ranks, *cut
        )

    def epoch_at(self, step: int) -> float:
        """Complete passes before the end of the last global batch."""
        return float(self._epoch)

    def fingerprint(self) -> str:
        """A hash of source, tokenizer and cutting, which must be the same to resume."""
        inputs = {
            "source": self.stream_source.fingerprint(),
            "tokenizer": tokenizer_fingerprint(self.tokenizer),
            "max_length": self.max_length,
            "long_documents": self.settings.long_documents,
        }
        return key_of(inputs)

    def token_baselines(self) -> dict[str, float]:
        """Baselines of a loss in nats per token; without a validation set only ln(vocabulary)."""
        if self.prepared is None:
            return {"uniform_entropy": math.log(len(self.tokenizer))}
        return super().token_baselines()

    def describe(self) -> dict[str, str]:
        """Facts about the stream for the summary at the start."""
        held_out: dict[str, Any] = dict(self.validation)
        return {
            "source": self.source.describe(),
            "training": "a stream: tokenised as it is read"
            + (f", shuffled {self.sampler.buffer_size:,} at a time" if self.sampler.buffer_size else ""),  # type: ignore[attr-defined]
            "validation": ", ".join(f"{n}: {len(s):,} sequences" for n, s in held_out.items()) or "none",
            "vocabulary": f"{len(self.tokenizer):,} tokens",
            "global batch": f"{self.sampler.global_batch_size} documents",
            "micro-batch": f"{self.micro_batch_tokens or 'any number of'} tokens, {self.layout}",
        }

    def _held_out(self) -> dict[str, Source]:
        number = self.settings.validation_documents
        if 0 < number < 1:
            raise ValueError(
                f"data.validation_documents={number} is a share of documents, but nobody knows how many a stream has: "
                "give a number of them (the first ones are held out), 0, or data.validation"
            )
        return {HELD_OUT: FirstDocuments(self.source, int(number))} if number else {}
