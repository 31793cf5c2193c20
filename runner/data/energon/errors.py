"""Samples of an energon data set that cannot be read: each is named; up to a number are skipped."""

import logging
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from megatron.energon import PackingDataset, SavableDataset, SourceInfo

from tiryns.runner.patches.energon import hide_progress

log = logging.getLogger("tiryns")


class UnreadableSample(ValueError):
    """A sample of a stream cannot be read; the message names it."""


class ErrorCollector:
    """Messages on samples that a loading process could not read since its last batch, which goes on with them.

    `SkipBudget` counts them in the training process. Here the bound ends a stream of which nothing can be read.
    """

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.known: set[str] = set()
        self.pending: list[str] = []

    def add(self, message: str) -> None:
        """Adds a skipped sample. Raises UnreadableSample if there are more than allowed."""
        self.known.add(message)
        if len(self.known) > self.allowed:
            raise UnreadableSample(one_too_many(message, self.allowed))
        self.pending.append(message)

    def handle(self, error: Exception, sample: Any, sources: Sequence[SourceInfo] | None) -> None:
        """Energon's error handler: the sample is skipped unless this raises."""
        if isinstance(error, UnreadableSample):
            raise error
        where = f"{sources[0].shard_name}, sample {sources[0].index}" if sources else "a sample"
        self.add(f"{where}: {type(error).__name__}: {error}")

    def drain(self) -> list[str]:
        """The messages since the last call."""
        found, self.pending = self.pending, []
        return found


def one_too_many(message: str, allowed: int) -> str:
    """The message for a sample that exceeds the `allowed` number of skipped ones."""
    if allowed:
        return f"{message}. More than data.max_bad_samples={allowed} samples cannot be used"
    return f"{message}. To leave out such samples, set data.max_bad_samples to how many there may be"


class SkipBudget:
    """Counts the samples that a stream has given and left out, for checkpoints."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.samples = self.too_long = 0
        self.bad: list[str] = []

    def take(self, micro_batch: Any) -> None:
        """Counts a micro-batch of the training stream; raises as `check`."""
        if isinstance(micro_batch, dict):  # other task encoders may make other batches
            self.samples += len(micro_batch.get("sample_names", ()))
            self.too_long += micro_batch.get("too_long", 0)
            self.check(micro_batch)

    def check(self, micro_batch: Any) -> None:
        """Removes and counts `bad` samples, repeated ones once. Raises UnreadableSample for more than allowed."""
        if not isinstance(micro_batch, dict):
            return
        micro_batch.pop("too_long", 0)
        for message in micro_batch.pop("bad", ()):
            if message not in self.bad:
                self.bad.append(message)
                if len(self.bad) > self.allowed:
                    raise UnreadableSample(one_too_many(message, self.allowed))
                log.warning("left out: %s", message)

    def state(self) -> dict[str, Any]:
        """The counts."""
        return {"samples": self.samples, "too_long": self.too_long, "bad": list(self.bad)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores saved counts."""
        self.samples, self.too_long, self.bad = state["samples"], state["too_long"], list(state["bad"])


class GuardedReader:
    """A reader of shards that skips samples it cannot read, and collects them in `errors`."""

    def __init__(self, reader: Any, errors: ErrorCollector) -> None:
        self.reader, self.errors = reader, errors

    def __getattr__(self, name: str) -> Any:
        if name == "reader":  # not there yet while being copied
            raise AttributeError(name)
        return getattr(self.reader, name)

    def __len__(self) -> int:
        return len(self.reader)

    def __getitem__(self, index: int) -> Any:
        try:
            return self.reader[index]
        except Exception as error:  # tarfile, sqlite, the file system and energon have a dozen kinds
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.errors.add(f"{self._place(index)} cannot be read: {reason}")
            return None

    def _place(self, index: int) -> str:
        """The shard of a sample of the split, and its number there."""
        shards = getattr(self.reader, "shard_infos", None) or []
        for shard, end in zip(shards, accumulate(shard.count for shard in shards), strict=True):
            if index < end:
                return f"shard {str(shard.path)!r}, sample {index - end + shard.count} of {shard.count},"
        return f"sample {index} of {self.reader}"


def guard(dataset: SavableDataset[Any], errors: ErrorCollector) -> None:
    """Replaces each reader of shards in a tree of datasets by a guarded one, and keeps progress bars off."""
    if hasattr(dataset, "join_readers"):
        dataset.join_readers = [GuardedReader(reader, errors) for reader in dataset.join_readers]
    if isinstance(dataset, PackingDataset):
        hide_progress(dataset)
    for part in getattr(dataset, "datasets", ()):
        guard(part, errors)
