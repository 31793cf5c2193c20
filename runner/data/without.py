"""Leaves out or replaces the training samples that `data.without` names."""

import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.values import suggest
from tiryns.runner.data.origin.holders import holders_of
from tiryns.runner.protocols import RunData
from tiryns.runner.run.files import read_text
from tiryns.runner.samplers import GlobalBatchSampler
from tiryns.runner.samplers.base import Fingerprint
from tiryns.runner.samplers.mixed import DerivedSampler

log = logging.getLogger("tiryns")

SOURCE = "source:"
"""Prefix of the name of a mixture's source in `data.without`."""

WITHOUT = "without"
"""Entry of a fingerprint with the digest of the samples that are left out."""


class Without(DerivedSampler[GlobalBatchSampler]):
    """The global batches of `sampler`, in which some samples have weight 0 or a substitute.

    Samples keep their places, masks, dropout and micro-batches. `substitutes` [D] replace the samples
    `left_out` [D] (ascending); if `substitutes` is None, the samples `left_out` have weight 0.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(4), num_epochs=1, num_batches=None, global_batch_size=2, seed=0)
        >>> left_out = np.array([1])
        >>> dropped = Without(sampler, left_out, None, "digest")
        >>> batch = dropped.global_batch(0)
        >>> batch[:, 1].tolist(), dropped.is_trained(batch).tolist()
        ([0, 1], [True, False])
        >>> Without(sampler, left_out, np.array([2]), "digest").global_batch(0)[:, 1].tolist()
        [0, 2]
    """

    leaves_out = True

    def __init__(
        self,
        sampler: GlobalBatchSampler,
        left_out: NDArray[np.int64],
        substitutes: NDArray[np.int64] | None,
        digest: str,
    ) -> None:
        super().__init__(sampler)
        self.left_out, self.substitutes, self.digest = left_out, substitutes, digest

    def global_batch(self, step: int) -> NDArray[np.int64]:
        samples = self.sampler.global_batch(step)
        if self.substitutes is not None:
            mask = np.isin(samples[:, 1], self.left_out)
            samples[mask, 1] = self.substitutes[np.searchsorted(self.left_out, samples[mask, 1])]
        return samples

    def is_trained(self, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.isin(samples[:, 1], self.left_out, invert=True)

    def fingerprint(self) -> Fingerprint:
        return {**self.sampler.fingerprint(), WITHOUT: self.digest}


def leaving_out(settings: Any, data: RunData) -> Callable[[GlobalBatchSampler], GlobalBatchSampler]:
    """Returns a function that leaves out the samples named by `settings` from an order of prepared `data`.

    Raises ValueError if no samples or all samples are named, or if a sample has no possible substitute.
    """
    indices, substitute = samples_named(settings["without"], data), settings["substitute"]
    substitutes = substitutes_of(indices, data) if substitute else None
    digest = sha256(indices.astype("<i8").tobytes()).hexdigest()[:16]
    description = f"{len(indices)} samples {'substituted' if substitute else 'weight 0'}, {digest}"
    log.info("data.without: %d of %d training samples are left out", len(indices), len(data.train))
    return partial(Without, left_out=indices, substitutes=substitutes, digest=description)


def samples_named(setting: object, data: RunData) -> NDArray[np.int64]:
    """Returns the ascending indices [D] of the named samples. ValueError if none, all, or unknown samples are named."""
    numbers = setting if isinstance(setting, list) else [setting]
    if all(type(number) is int for number in numbers):  # true is no sample
        indices = np.array(numbers, np.int64)
    elif len(numbers) == 1 and isinstance(setting := numbers[0], str):
        indices = np.array(list(_numbers_of(setting, data)), np.int64)
    else:
        raise ValueError(
            f"data.without={setting}: expected numbers of samples, a file, a text, or {SOURCE}NAME"
        )
    indices, count = np.unique(indices), len(data.train)
    if not len(indices):
        raise ValueError(f"data.without={setting!r} names no training sample: nothing would be left out")
    if outside := [int(number) for number in indices[[0, -1]] if not 0 <= number < count]:
        raise ValueError(
            f"data.without names sample {outside[0]}: the training set has samples 0 to {count - 1:,} "
            "(a sample's number is `index` of `tiryns order`)"
        )
    if len(indices) == count:
        raise ValueError(f"data.without names all {count:,} training samples: leave some to train on")
    return indices


def _numbers_of(setting: str, data: RunData) -> Iterator[int]:
    """Yields the samples of a source, the samples in a file, or the samples that hold a text."""
    if setting.startswith(SOURCE):
        name, names = setting.removeprefix(SOURCE), getattr(data.train, "source_names", [])
        if name not in names:
            choices = f"the mixture has {', '.join(names)}" if names else "the data is no mixture"
            raise ValueError(f"data.without={setting}: {choices}{suggest(name, names)}")
        yield from np.flatnonzero(
            data.train.sources_of(np.arange(len(data.train))) == names.index(name)
        ).tolist()
        return
    path, text = Path(setting), read_text(Path(setting))
    if text and all(word.isdecimal() for word in text.split()):
        yield from map(int, text.split())
    elif path.suffix == ".json" and text:
        try:
            entries = [holder for one in json.loads(text)["texts"] for holder in one["found"]]
            yield from [number for holder in entries for number in holder["sequences"]]
        except (ValueError, KeyError, TypeError) as error:
            advice = "expected numbers of samples, or what `tiryns order RUN --find TEXT --json` writes"
            raise ValueError(f"data.without={path}: {advice}") from error
    else:
        for _, holders in holders_of(data, setting, "data.without"):
            for holder in holders:
                yield from holder.sequences


def substitutes_of(indices: NDArray[np.int64], data: RunData) -> NDArray[np.int64]:
    """Returns for each left-out sample the next kept sample of its set [D], cyclically. ValueError if none is kept."""
    sizes = [len(store.data.train) for store in data.stores] or [len(data.train)]
    ends = np.cumsum(sizes)
    substitutes = np.empty_like(indices)
    for first, end in zip(ends - sizes, ends, strict=True):
        mine = (first <= indices) & (indices < end)
        candidates = np.setdiff1d(np.arange(first, end), indices[mine], assume_unique=True)
        if mine.any() and not len(candidates):
            raise ValueError(
                "data.substitute=true: data.without names all samples of a source, so none can take their place"
            )
        substitutes[mine] = candidates[np.searchsorted(candidates, indices[mine]) % max(len(candidates), 1)]
    return substitutes
