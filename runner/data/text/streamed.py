"""Text for pretraining as a stream: nothing on disk, and no pass over it before the first batch."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from tiryns.runner.data.read.documents import Source
from tiryns.runner.data.replicas import replica_of
from tiryns.runner.data.store.cached import key_of
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.holdout import HELD_OUT, digest
from tiryns.runner.data.text.prepare import PreparedText, token_figures
from tiryns.runner.data.text.pretraining import PretrainingData
from tiryns.runner.data.text.stream import SomeDocuments
from tiryns.runner.data.text.streamed_batches import StreamedGlobalBatches, StreamLoader, StreamOrder
from tiryns.runner.data.text.tokenizer import load_tokenizer, tokenizer_fingerprint


class StreamedPretrainingData(PretrainingData):
    """The same settings, served from a stream: `data.streaming=true`.

    A global batch is the next documents of the stream, which is shuffled in a buffer of `shuffle_buffer_size` documents.
    Every process reads the whole text and tokenises only its own documents, so a run resumes with other numbers of ranks
    and loader processes. Validation sets, or the first `validation_documents`, are prepared as without streaming, and
    their texts are not trained on.
    """

    streamed = True
    phase_groups = ()
    _epoch = 0

    def prepare_data(self) -> None:
        """Prepares the validation sets; raises ValueError without a tokenizer, or for a share to hold out."""
        if hasattr(self, "stream_source"):
            return
        if self.tokenizer_name is None:
            raise ValueError(
                "data.streaming=true cannot train a tokenizer, which takes a pass over the data: set data.tokenizer to "
                "the name or folder of one, such as the model/ of a run on a part of it"
            )
        sources, number = self.validation_sources, self.settings.validation_documents
        if number and not sources:
            if number < 1:
                raise ValueError(
                    f"data.validation_documents={number} is a share of documents, but a stream has an unknown number: "
                    "give a number of them (the first ones are held out), 0, or data.validation"
                )
            sources = {HELD_OUT: SomeDocuments(self.source, int(number))}
        prepared = {name: self.prepare_sets(source, {}, 0) for name, source in sources.items()}
        self.validation = {name: TokenStore(found.train) for name, found in prepared.items()}
        if prepared:
            figures = token_figures(self.validation, self.tokenizer.all_special_ids)
            paths = {name: found.train for name, found in prepared.items()}
            self.prepared = PreparedText(Path(), paths, Path(), {}, **figures)
        left_out = {digest(document) for source in sources.values() for document in source.documents()}
        self.stream_source: Source = SomeDocuments(self.source, left_out=left_out)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that the setting names."""
        assert self.tokenizer_name is not None
        return load_tokenizer(self.tokenizer_name, self.needed_tokens)

    def _sampler(self, make_sampler: Callable[..., Any], max_steps: int, max_epochs: float | None) -> Any:
        """The order; raises ValueError for a sampler that chooses documents by number, or a length in epochs."""
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
        if self.settings.length_warmup_from is not None:
            raise ValueError(
                "data.length_warmup_from cuts samples that are tokenised already: set data.streaming=false"
            )
        buffer_size = self.settings.shuffle_buffer_size if name == "Shuffled" else 0
        return StreamOrder(max_steps, settings["global_batch_size"], settings["seed"], buffer_size)

    def _length_warmup(self, max_steps: int) -> None:
        """None: documents are tokenised whole."""

    def train_dataloader(self) -> Any:
        """Global batches from the first that is not yet consumed."""
        assert self.trainer is not None
        replica = replica_of(self.trainer)
        batches = self.train_batches(replica.rank, replica.size)
        batches.start = self.start
        return StreamLoader(batches, self, replica, self.trainer.strategy.root_device)

    def train_batches(self, rank: int, num_ranks: int) -> "StreamedGlobalBatches":  # type: ignore[override]
        """The shares of one of `num_ranks` ranks."""
        chunker = Chunker(self.tokenizer.backend_tokenizer, self.max_length, self.settings.long_documents)
        cut = self.partitioning
        return StreamedGlobalBatches(
            self.stream_source, chunker, self.sampler, self.collator, self.seed, rank, num_ranks, *cut
        )

    def epoch_at(self, step: int) -> float:
        """Complete passes before the end of the last global batch."""
        return float(self._epoch)

    def token_counts(self) -> NDArray[np.int64]:
        """Raises ValueError, as a stream is read once."""
        raise ValueError(
            "objective.favour=rare counts the tokens of the training data before the run, which a stream does not allow: "
            "set data.streaming=false, or another objective.favour"
        )

    def fingerprint(self) -> str:
        """A hash of source, tokenizer and cutting, which must be the same to resume."""
        cutting = {"max_length": self.max_length, "long_documents": self.settings.long_documents}
        tokenizer = tokenizer_fingerprint(self.tokenizer)
        return key_of({"source": self.stream_source.fingerprint(), "tokenizer": tokenizer, **cutting})

    def _describe_training(self) -> tuple[str, str]:
        """The stream and a global batch in words."""
        order: Any = self.sampler
        shuffled = f", shuffled {order.buffer_size:,} at a time" if order.buffer_size else ""
        return f"a stream: tokenised as it is read{shuffled}", f"{order.global_batch_size} documents"
