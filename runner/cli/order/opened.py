"""The order of a run's samples, from its recomposed config and sampler, and the differences of two orders."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.config.checks import check_config
from tiryns.runner.config.permissions import on_command_line
from tiryns.runner.config.run_config import complete, with_data
from tiryns.runner.config.skipped import skipped_batches
from tiryns.runner.data.origin.holders import Holder, holders_of
from tiryns.runner.loop.assembly import make_data, numbers_global_batches, prepare_and_connect
from tiryns.runner.loop.phases import phases_in, take_over
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.opened_run import open_run
from tiryns.runner.optim.schedule.chain import timeline_of
from tiryns.runner.order.timeline import merge
from tiryns.runner.run.audit import FILE_NAME, order_hash, whole_lines
from tiryns.runner.run.model_folder import own_words


class SampleOrder:
    """The global batches of a run by step, counted from 1 as in `order.txt`; its model is not built.

    The overrides `words` allow the user's own code. Raises ValueError if the folder is no run, or the run reads a stream.
    """

    def __init__(self, path: Path, words: Sequence[str] = ()) -> None:
        self.path, run = path, open_run(path)
        config, resolved = run.config, run.status.get("resolved") or {}
        with on_command_line([*own_words(path), *words]):
            check_config(config)
        config = complete(with_data(config, path))
        take_over(config, resolved)
        config.skip_batches = skipped_batches(path)
        self.data = make_data(config, resolved)
        if not numbers_global_batches(self.data):
            stream = f"reads its data as a stream ({type(self.data).__name__})"
            raise ValueError(f"{str(path)!r} {stream}, whose samples have no numbers")
        self.num_steps = prepare_and_connect(config, self.data)
        """Global batches of the whole run."""
        self._timeline = timeline_of(phases_in(config))
        self.data.layout = resolved.get("layout") or "padded"  # the hash does not depend on it
        self._batches = self.data.train_batches(0, 1)  # whole, as one process would train on them
        lines = (line.split() for line in whole_lines(path / FILE_NAME))
        self.hashes = {int(line[0]): line[1] for line in lines if len(line) == 2}
        """The hash of each step in `order.txt`."""
        self.last_step = max(int(run.status.get("step") or 0), *self.hashes, 0)
        """The last step that was trained."""
        self.first = 1
        """The first step on this run's own data; a branch with changed data has the earlier steps of its parent."""
        if (branch := run.branch) and config.resume_changed_data:
            sessions, parent = read_manifest(path).get("sessions") or [{}], branch.parent
            self.first += int(sessions[0].get("step") or 0)
            self._parent = cache(lambda: SampleOrder(parent, words))  # opened only where it is needed

    def at(self, step: int) -> "SampleOrder":
        """Returns the order that has the samples of a step: this one, or that of the run it branched from."""
        return self if step >= self.first else self._parent().at(step)

    def samples(self, step: int) -> NDArray[np.int64]:
        """Returns epoch and index of each trained sample of a global batch, int64 [B, 2]."""
        return self.in_places(step)[1]

    def in_places(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the positions of a global batch's trained samples, from 1, int64 [B], and the samples [B, 2]."""
        sampler = self.at(step).data.sampler
        samples = sampler.global_batch(step - 1)
        places = np.flatnonzero(sampler.is_trained(samples))
        return places + 1, samples[places]

    def phase_at(self, step: int) -> str | None:
        """Returns the name of the phase of a step's global batch; None for a run without phases."""
        order = self.at(step)
        place, timeline = order.data.sampler.batch_number(step - 1), order._timeline
        return timeline.names[timeline.at(place)] if len(timeline) else None

    def changed_steps(self, steps: Iterable[int]) -> Iterator[int]:
        """Yields the steps whose samples, collated again, have a hash that differs from `order.txt`."""
        for step in steps:
            if step in self.hashes:
                share = self.at(step)._batches[step - 1]
                if order_hash(share["hash_high"], share["hash_low"]) != self.hashes[step]:
                    yield step

    def occurrences(self, indices: NDArray[np.int64]) -> list[dict[str, int]]:
        """Returns each use of samples of this data: `step`, `place` in the global batch from 1, `epoch`, `index`."""
        uses = []
        for step in range(self.first, self.num_steps + 1) if len(indices) else ():
            places, samples = self.in_places(step)
            for row in np.flatnonzero(np.isin(samples[:, 1], indices)).tolist():
                epoch, index = samples[row].tolist()
                uses.append({"step": step, "place": int(places[row]), "epoch": epoch, "index": index})
        return uses

    def find(self, text: str) -> list[tuple[str, list[Holder]]]:
        """Returns the holders of each document of a file or text, with their uses in the run; reads the data once."""
        documents = holders_of(self.data, text, "--find")
        holders = [one for _, of_text in documents for one in of_text]
        indices = np.unique([index for one in holders for index in one.sequences])
        by_index: dict[int, list[dict[str, int]]] = {}
        for occurrence in self.occurrences(indices.astype(np.int64)):
            by_index.setdefault(occurrence["index"], []).append(occurrence)
        for one in holders:
            one.occurrences = [o for index in one.sequences for o in by_index.get(index, [])]
        earlier = dict(self._parent().find(text)) if self.first > 1 else {}
        for document, of_text in documents:
            for one in earlier.get(document, []):
                uses = [use for use in one.occurrences if use["step"] < self.first]
                of_text.append(replace(one, set=f"{one.set} until step {self.first - 1}", occurrences=uses))
        return documents


def differences(first: SampleOrder, second: SampleOrder) -> dict[str, Any]:
    """Returns steps whose samples differ, and counts of shared ones; compares indices, or tokens if the data differs."""
    orders = first, second
    same = first.first == second.first == 1 and first.data.fingerprint() == second.data.fingerprint()
    seen: tuple[list[NDArray[np.integer]], list[NDArray[np.integer]]] = [], []
    keys = [_keys(order, same) for order in orders]
    steps, differ, masks, overlap = min(first.last_step, second.last_step), [], [], 0.0
    for step in range(1, steps + 1):
        one, other = (of(step) for of in keys)
        for samples, batch in zip(seen, (one, other), strict=True):
            samples.append(np.unique(batch))
        overlap += len(np.intersect1d(one, other)) / max(len(one), len(other), 1)
        epochs = [order.samples(step)[:, 0] for order in orders]
        if not (np.array_equal(one, other) and np.array_equal(epochs[0], epochs[1])):
            differ.append(step)
        elif first.hashes.get(step) != second.hashes.get(step):
            masks.append(step)
    sets = [np.unique(np.concatenate(samples or [np.empty(0, np.int64)])) for samples in seen]
    return {
        "steps": steps, "same_data": same, "different_steps": merge((step, step) for step in differ),
        "different_masks": merge((step, step) for step in masks), "shared_of_a_step": overlap / max(steps, 1),
        "samples": [len(samples) for samples in sets],
        "shared_samples": len(np.intersect1d(sets[0], sets[1])),
    }  # fmt: skip


def _keys(order: SampleOrder, by_index: bool) -> Callable[[int], NDArray[np.integer]]:
    """Returns a function from a step to its samples' keys in order [B]: indices if `by_index`, else hashes of tokens."""

    @cache
    def token_hash(part: SampleOrder, index: int) -> int:
        tokens, _ = part.data.train.gather(np.array([index]))
        digest = hashlib.blake2b(tokens.astype("<i8").tobytes(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def of(step: int) -> NDArray[np.integer]:
        indices, part = order.samples(step)[:, 1], order.at(step)
        return indices if by_index else np.array([token_hash(part, i) for i in indices.tolist()], np.uint64)

    return of
