"""An energon loader as an endless stream that can be saved, as plain values, and resumed at any batch."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
import torch
from megatron.energon import SavableDataset, get_savable_loader
from megatron.energon.flavors.webdataset.sample_loader import SliceState
from megatron.energon.rng import SystemRngState
from megatron.energon.savable_loader import SavableDataLoaderState as LoaderState
from megatron.energon.savable_loader import SavableDatasetCheckpoint as DatasetCheckpoint
from megatron.energon.savable_loader import SavableDatasetState as DatasetState
from megatron.energon.state import FlexState

from tiryns.runner.data import workers
from tiryns.runner.data.energon.source import SkipBudget
from tiryns.runner.patches.torch import loaders

T = TypeVar("T")

log = logging.getLogger("tiryns")


_DATACLASSES = (LoaderState, DatasetCheckpoint, DatasetState, SliceState, SystemRngState)
_RECORDS: dict[str, type] = {kind.__name__: kind for kind in _DATACLASSES}
"""The dataclasses that a state is made of."""

_KIND, _FIELDS = "energon", "fields"


def to_plain(value: object) -> Any:
    """Returns a state as dicts, lists, tuples, numbers, text, bytes and tensors. TypeError for parts of other types."""
    name = type(value).__name__
    if is_dataclass(value) and _RECORDS.get(name) is type(value):
        return {_KIND: name, _FIELDS: {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, FlexState):
        return {_KIND: "FlexState", _FIELDS: {n: to_plain(v) for n, v in value.items()}}
    if isinstance(value, np.ndarray):
        # Weights-only loading knows no tensors of every unsigned type, so the type is saved by name.
        values = torch.from_numpy(value.astype(np.int64))
        return {_KIND: "ndarray", _FIELDS: {"type": value.dtype.str, "values": values}}
    if isinstance(value, dict):
        return {n: to_plain(v) for n, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(to_plain(v) for v in value)
    if isinstance(value, np.integer):
        return int(value)
    if value is None or isinstance(value, bool | int | float | str | bytes | torch.Tensor):
        return value
    raise TypeError(f"a state of energon holds a {type(value).__module__}.{name}, which cannot be saved")


def from_plain(value: Any) -> Any:
    """Returns the inverse of `to_plain`."""
    if isinstance(value, dict):
        if _KIND not in value:
            return {n: from_plain(v) for n, v in value.items()}
        kind, members = value[_KIND], {n: from_plain(v) for n, v in value[_FIELDS].items()}
        if kind == "FlexState":
            return FlexState(members)
        if kind == "ndarray":
            return members["values"].numpy().astype(np.dtype(members["type"]))
        return _RECORDS[kind](**members)
    if isinstance(value, list | tuple):
        return type(value)(from_plain(v) for v in value)
    return value


def cyclic_iter(iter: Iterable[T]) -> Iterator[T]:
    """Repeats `iter` endlessly.

    Example:
        >>> batches = cyclic_iter([1, 2, 3])
        >>> [next(batches) for _ in range(5)]
        [1, 2, 3, 1, 2]

    Raises:
        ValueError: `iter` is empty, so the loop would never end.
    """
    while True:
        empty = True
        for batch in iter:
            empty = False
            yield batch
        if empty:
            raise ValueError(
                "the energon loader gives no batch: its split has no usable sample; check which shards "
                ".nv-meta/split.yaml lists, and which samples the task encoder skips"
            )


class _Batches:
    """Iterates over the batches of a loader, and keeps torch's iterator, which `fetch` needs."""

    def __init__(self, loader: Any, batches: Iterator[Any]) -> None:
        self._loader, self._batches = loader, batches

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    @property
    def _iterator(self) -> Any:
        return loaders.running(self._loader)


class EnergonDataloader:
    """An endless iterator over the batches of an energon loader; its state is the state after the last batch.

    `skip_budget`, if given, counts the samples, and is part of the state.

    A worker that has not started never answers, and energon's own state of a restored loader is wrong until all of its
    workers have yielded a batch. Until then, the state is the restored state with the number of batches to skip.

    `remake`, if given, makes the loader again when the system has killed workers. The new workers start at the last known
    state and read up to the next batch.

    Raises:
        RuntimeError: new workers are killed as well.

    Example:
        >>> loader = EnergonDataloader(["one", "two"])
        >>> [next(loader) for _ in range(3)]
        ['one', 'two', 'one']
    """

    def __init__(
        self, dataloader: Any, skip_budget: SkipBudget | None = None, remake: Callable[[], Any] | None = None
    ) -> None:
        self.dataloader, self.skip_budget, self._remake = dataloader, skip_budget, remake
        self._batches = _Batches(dataloader, cyclic_iter(dataloader))
        self._num_workers: int = getattr(dataloader, "num_workers", 0)
        self._taken = 0
        """Batches since the loader began or was restored, skipped ones included."""
        self._state: tuple[Any, int] = None, 0
        """The last known state as plain values, and the number of batches since then."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Returns the next batch. Raises ValueError if the loader has no batch."""
        try:
            batch = self._fetch()
        except workers.WorkerDeath as death:
            batch = self._after(death)
        state, behind = self._state
        self._state = state, behind + 1
        if self.skip_budget is not None:
            self.skip_budget.take(batch)
        return batch

    def _fetch(self) -> Any:
        count = 1 if self._taken else self._state[1] + 1
        if starts := self._num_workers and not self._taken:
            workers.wait_before_fork(self._num_workers)
            workers.watch.listen()
        try:
            for _ in range(count):
                batch = workers.fetch(self._batches)
        except workers.WorkerDeath:
            loaders.kill(self._batches)
            loaders.forget(self.dataloader)
            raise
        self._taken += count
        if starts:
            loaders.take_over(self._batches)
        return batch

    def _after(self, death: workers.WorkerDeath) -> Any:
        if self._remake is None:
            raise death
        self.dataloader = self._remake()
        self._batches = _Batches(self.dataloader, cyclic_iter(self.dataloader))
        state, behind = self._state
        log.warning("%s; new processes read %d batches again and continue", death, behind)
        self._taken = 0
        self.dataloader.restore_state_rank(from_plain(state))
        try:
            return self._fetch()
        except workers.WorkerDeath as again:
            raise RuntimeError(
                "loader processes of energon were killed, and the new ones too; is there memory for data.num_workers?"
            ) from again

    def __len__(self) -> int:
        """Returns the approximate number of batches of one pass, after which Lightning ends an epoch by default."""
        return len(self.dataloader)

    def save_state(self) -> Any:
        """Returns the loader's `save_state_rank()` as plain values.

        With a budget, or if only an old state is known, a dict: `state`, `skip` (batches since), `stock` (budget state).
        """
        skip_budget = self.skip_budget.state() if self.skip_budget is not None else None
        if self._taken >= max(1, self._num_workers) or (self._state[0] is None and not self._num_workers):
            with suppress(workers.WorkerDeath):  # the dead do not answer
                state = to_plain(workers.ask(self._batches, self.dataloader.save_state_rank))
                self._state = state, 0
                return state if skip_budget is None else {"state": state, "skip": 0, "stock": skip_budget}
        return {"state": self._state[0], "skip": self._state[1], "stock": skip_budget}

    def restore_state(self, state: Any) -> None:
        """Resumes where a stream of the same layout saved `state`; call it before the first batch."""
        assert not self._taken, "restore_state comes before the first batch"
        has_counts = isinstance(state, dict) and set(state) == {"state", "skip", "stock"}
        entry = state if has_counts else {"state": state, "skip": 0, "stock": None}
        self.dataloader.restore_state_rank(from_plain(entry["state"]))  # which energon changes
        self._state = entry["state"], entry["skip"]
        if self.skip_budget is not None and entry["stock"] is not None:
            self.skip_budget.restore(entry["stock"])

    def close(self) -> None:
        """Ends the workers at once; garbage collection would wait 5 seconds for them."""
        loaders.close(self.dataloader)

    def __del__(self) -> None:
        if "dataloader" in vars(self):
            self.close()


class EnergonPass:
    """An energon loader whose iterations all start at the first batch; its workers end after each iteration."""

    def __init__(self, dataloader: Any, skip_budget: SkipBudget) -> None:
        self.dataloader, self.skip_budget = dataloader, skip_budget

    def __len__(self) -> int:
        return len(self.dataloader)

    def __iter__(self) -> Iterator[Any]:
        try:
            for batch in workers.replacing(self._begun_at, 0, "batch"):
                self.skip_budget.check(batch)
                yield batch
        finally:
            self.close()

    def _begun_at(self, number: int) -> tuple[Iterator[Any], int]:
        loader = self.dataloader
        loaders.forget(loader)
        if not loader.num_workers:
            loader.dataset.reset_state_deep()
        return workers.begun(lambda: _Batches(loader, iter(loader)), loader.num_workers), number

    def close(self) -> None:
        """Ends the workers."""
        loaders.close(self.dataloader)


def savable_loader(dataset: SavableDataset, pin_memory: bool) -> Any:
    """Returns energon's loader of a training set, set up by `worker_safe`; workers collect garbage every 10 steps."""
    every = 10 if dataset.worker_config.num_workers else 0
    return worker_safe(get_savable_loader(dataset, gc_collect_every_n_steps=every), pin_memory)


def worker_safe(loader: Any, pin_memory: bool) -> Any:
    """Sets up a loader of energon: workers leave signals to the training process, and memory is pinned for a GPU."""
    loader.pin_memory = pin_memory and torch.cuda.is_available()
    loader.worker_init_fn = partial(_start_worker, loader.worker_init_fn)
    return loader


def _start_worker(start: Callable[[int], None], worker: int) -> None:
    workers.set_up_worker(worker)
    start(worker)
