"""Text for pretraining as a stream: training needs no stored tokens, and no pass over the text before it starts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, get_worker_info
from transformers import PreTrainedTokenizerBase

from tiryns.runner.data.batches import MASK_STREAM, keyed_samples, share_of
from tiryns.runner.data.micro_batch import Collate, MicroBatch, Share
from tiryns.runner.data.read.documents import Source
from tiryns.runner.data.replicas import Replica, replica_of
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.store.writer import key_of
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.holdout import HELD_OUT, digest
from tiryns.runner.data.text.prepare import PreparedText, token_figures
from tiryns.runner.data.text.pretraining import PretrainingData
from tiryns.runner.data.text.stream import Drawn, ShuffledStream, SomeDocuments
from tiryns.runner.data.text.tokenizer import load_tokenizer, tokenizer_fingerprint
from tiryns.runner.data.workers import WorkerLoader, replacing
from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.partition import partition
from tiryns.runner.order.ranges import ranges
from tiryns.runner.samplers.base import Fingerprint

CHUNKS = 1 << 40
"""Chunk c of document n is sample n + c * CHUNKS, so that each chunk has its own random key."""


@dataclass(eq=False)
class StreamOrder:
    """The order of a stream: each global batch has the next `global_batch_size` documents, and may cross passes."""

    num_batches: int
    global_batch_size: int
    seed: int
    buffer_size: int

    def __len__(self) -> int:
        return self.num_batches

    def fingerprint(self) -> Fingerprint:
        """Returns the settings that the order depends on, compared at a resume."""
        settings = ("seed", "global_batch_size", "buffer_size")
        return {"sampler": "a stream", **{name: getattr(self, name) for name in settings}}


@dataclass(eq=False)
class StreamedGlobalBatches(IterableDataset[Share]):
    """This rank's shares from batch `start` on; a loader process reads all documents, but tokenises only its batches."""

    start = 0
    source: Source
    chunker: Chunker
    order: Any
    collator: Collate
    seed: int
    rank: int
    num_ranks: int
    micro_batch_tokens: int | None
    micro_batch_size: int | None
    packed: bool

    def __iter__(self) -> Iterator[Share]:
        worker = get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        documents = ShuffledStream(self.source, self.order.buffer_size, self.order.seed).endless()
        for step in range(len(self.order)):
            batch = list(islice(documents, self.order.global_batch_size))
            if step >= self.start and (step - self.start) % count == number:
                yield self.share(step, batch)

    def share(self, step: int, documents: list[Drawn]) -> Share:
        """Returns this rank's share of global batch `step`; each of `documents` has its pass and number."""
        mine = range(self.rank, len(documents), self.num_ranks)
        samples, ids, lengths = self._tokenise([(place, *documents[place]) for place in mine])
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        cut = partition(lengths, 1, self.micro_batch_tokens, self.micro_batch_size, self.packed)[0]
        batch_key = derive_seed(self.seed, MASK_STREAM, step)
        micro_batches = []
        for rows in cut if len(lengths) else []:
            places, epochs, numbers, chunks = samples[rows].T
            tokens = ids[ranges(starts[rows], lengths[rows].astype(np.int64))]
            indices = numbers + CHUNKS * chunks
            flat = keyed_samples(tokens, lengths[rows], epochs, indices, self.seed, MASK_STREAM, self.packed)
            flat |= {"batch_places": places, "batch_size": len(documents), "batch_key": batch_key}
            flat["progress"] = step / len(self.order)
            micro_batches.append(self.collator(flat))
        share = share_of(micro_batches or [self.filler()])
        share["sample_ids"] = torch.from_numpy(samples[:, 1:3])
        share["epoch"] = documents[-1][0]
        return share

    def filler(self) -> MicroBatch:
        """Returns a micro-batch with weight 0, for a rank that has no documents while other ranks have some."""
        zero = np.zeros(1, dtype=np.int64)
        length = np.ones(1, dtype=np.int32)
        flat = keyed_samples(zero, length, zero, zero, self.seed, MASK_STREAM, self.packed)
        return self.collator({**flat, "filler": True, "batch_places": zero, "batch_size": 1, "batch_key": 0})

    def _tokenise(
        self, documents: list[tuple[int, int, int, Any]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Returns place in the batch, pass, number, chunk of each sequence [D, 4]; tokens end to end [N]; lengths [D]."""
        cut = self.chunker.tokens if self.source.tokenized else self.chunker.texts
        sequences = [cut([document]) for *_, document in documents]
        counts = zip(documents, (len(lengths) for _, lengths in sequences), strict=True)
        samples = [(*document[:3], chunk) for document, count in counts for chunk in range(count)]
        ids = np.concatenate([np.empty(0, np.int64), *(tokens for tokens, _ in sequences)])
        lengths = np.concatenate([np.empty(0, np.int32), *(lengths for _, lengths in sequences)])
        return np.array(samples, np.int64).reshape(-1, 4), ids, lengths


class StreamLoader:
    """Shares of all global batches of a run; fillers give every rank the same number of micro-batches."""

    def __init__(
        self,
        batches: StreamedGlobalBatches,
        data: "StreamedPretrainingData",
        replica: Replica,
        device: torch.device,
    ) -> None:
        self.batches, self.data, self.replica, self.device = batches, data, replica, device
        self.first = batches.start
        self.loader = WorkerLoader(batches, data.num_workers, pin_memory=device.type == "cuda")

    def __len__(self) -> int:
        return len(self.batches.order)

    def __iter__(self) -> Iterator[Share]:
        for share in replacing(self._begun_at, self.first, "step"):
            self.data._epoch = share.pop("epoch")
            mine = most = len(share["micro_batches"])
            if self.replica.size > 1:
                count = torch.tensor(mine, device=self.device)
                torch.distributed.all_reduce(count, torch.distributed.ReduceOp.MAX, group=self.replica.group)
                most = int(count)
            for _ in range(most - mine):
                share["micro_batches"] += share_of([self.batches.filler()])["micro_batches"]
            yield share

    def _begun_at(self, step: int) -> tuple[Iterator[Share], int]:
        """Starts new loader processes for the shares from `step` on; they read again from the first document on."""
        self.batches.start = step
        return self.loader.begun_at(0)


class StreamedPretrainingData(PretrainingData):
    """Pretraining data as a stream: `data.streaming=true`.

    A global batch is the next documents of the stream, which is shuffled in a buffer of `shuffle_buffer_size` documents.
    Every process reads the whole text and tokenises only its own documents, so a run can resume with other numbers of
    ranks and loader processes. Validation sets, or the first `validation_documents` documents, are prepared as without
    streaming. Their texts are not trained on.
    """

    streamed = True
    phase_groups = ()
    _epoch = 0

    def prepare_data(self) -> None:
        """Prepares the validation sets. ValueError if no tokenizer is set, or `validation_documents` is a share."""
        if hasattr(self, "stream_source"):
            return
        if self.tokenizer_name is None:
            raise ValueError(
                "data.streaming=true cannot train a tokenizer, as that takes a pass over the data: set data.tokenizer to "
                "the name or folder of a tokenizer, such as the model/ of a run on a part of the data"
            )
        sources, number = self.validation_sources, self.settings.validation_documents
        if number and not sources:
            if number < 1:
                raise ValueError(
                    f"data.validation_documents={number} is a share, but a stream has no known number of documents: "
                    "give a number of documents (the first ones are held out), 0, or data.validation"
                )
            sources = {HELD_OUT: SomeDocuments(self.source, int(number))}
        texts = {name: self.prepare_sets(source, {}, 0) for name, source in sources.items()}
        self.validation = {name: TokenStore(text.train) for name, text in texts.items()}
        if texts:
            figures = token_figures(self.validation, self.tokenizer.all_special_ids)
            paths = {name: text.train for name, text in texts.items()}
            self.prepared = PreparedText(Path(), paths, Path(), {}, **figures)
        digests = {digest(document) for source in sources.values() for document in source.documents()}
        self.stream_source: Source = SomeDocuments(self.source, exclusions=digests)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that the setting names."""
        assert self.tokenizer_name is not None
        return load_tokenizer(self.tokenizer_name, self.needed_tokens)

    def _sampler(self, make_sampler: Callable[..., Any], max_steps: int, max_epochs: float | None) -> Any:
        name = getattr(getattr(make_sampler, "func", make_sampler), "__name__", "")
        if name not in ("Shuffled", "Sequential"):
            raise ValueError(
                f"the sampler {name} chooses samples by their number, but data.streaming=true takes them as they come: "
                "choose sampler=shuffled (data.shuffle_buffer_size), sampler=sequential or data.streaming=false"
            )
        if max_steps < 1:
            raise ValueError(
                "the number of documents of an epoch is unknown until all are read: give trainer.max_steps instead of "
                "trainer.max_epochs, or data.streaming=false"
            )
        settings: dict[str, Any] = make_sampler.keywords  # type: ignore[attr-defined]
        if self.settings.length_warmup_from is not None:
            raise ValueError(
                "data.length_warmup_from cuts samples that are tokenised already: set data.streaming=false"
            )
        buffer_size = self.settings.shuffle_buffer_size if name == "Shuffled" else 0
        return StreamOrder(max_steps, settings["global_batch_size"], settings["seed"], buffer_size)

    def train_dataloader(self) -> Any:
        assert self.trainer is not None
        replica = replica_of(self.trainer)
        batches = self.train_batches(replica.rank, replica.size)
        batches.start = self.start
        return StreamLoader(batches, self, replica, self.trainer.strategy.root_device)

    def train_batches(self, rank: int, num_ranks: int) -> "StreamedGlobalBatches":  # type: ignore[override]
        chunker = Chunker(self.tokenizer.backend_tokenizer, self.max_length, self.settings.long_documents)
        cut = self.partitioning
        return StreamedGlobalBatches(
            self.stream_source, chunker, self.sampler, self.collator, self.seed, rank, num_ranks, *cut
        )

    def epoch_at(self, step: int) -> float:
        """Returns the number of passes that ended before the last document of the latest global batch."""
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
        order: Any = self.sampler
        suffix = f", shuffled {order.buffer_size:,} at a time" if order.buffer_size else ""
        return f"a stream: tokenised as it is read{suffix}", f"{order.global_batch_size} documents"
