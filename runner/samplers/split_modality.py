"""Global batches of one modality each: all with images, or all text.

As LLaVA 1.5 does it (Liu et al. 2023, arXiv 2310.03744; `group_by_modality_length` in its code): a batch without
images skips the vision tower, and ranks with like work do not wait for each other.

Letters in shapes: N examples, B examples of a global batch, R ranks, M batches handled at a time.
"""

import logging
from collections.abc import Iterator, Sequence, Sized
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from runner.data.keyed import derive_seed
from runner.data.multi_epoch import SizedSequences, epoch_seed, permute_block

from .base import GlobalBatchSampler, check_fingerprint, check_sizes

log = logging.getLogger("iolaus")

_BATCHES = 0x62617463686573
"""What a derived seed is for ("batches" in ASCII)."""

_CHUNK = 1 << 19
"""Examples dealt to the ranks at a time."""

_INDEX = (1 << 32) - 1
"""The index in a word; above it stands how much shorter than the longest the example is."""


class ModalitySequences(SizedSequences, Protocol):
    """Sequences of which some come with images."""

    def modalities(self, indices: np.ndarray, /) -> np.ndarray:
        """Whether each sample has images, bool [D], of int64 indices [D]."""
        ...


class _Epoch(NamedTuple):
    """The batches of an epoch: words int64 [batches, B], and how many of each row are no repeats."""

    words: np.ndarray
    sizes: np.ndarray


class ModalityBatches:
    """Cuts each modality's examples, shuffled, into batches; the batches are shuffled, with the longest first.

    The batch with the longest example comes first so that running out of memory shows at the first step. A last
    batch of a modality that is not full is filled up from the start of that modality's order, so that no example
    comes more than once more often than another of its kind; with `drop_last` it is left out.

    An example is a word, (longest length - length) above and index below, so that sorting words puts the longest
    example first and a batch needs no look-up of lengths.
    """

    def __init__(self, has_image: np.ndarray, lengths: np.ndarray, size: int, drop_last: bool) -> None:
        """Takes bool [N] and tokens int64 [N]. Raises ValueError if all batches would be left out."""
        self.longest = int(lengths.max())
        assert self.longest >> 31 == len(lengths) >> 32 == 0
        words = (self.longest - lengths) << 32
        words |= np.arange(len(lengths))
        self.size = size
        self.members = [words[has_image], words[~has_image]]
        counts = [len(members) for members in self.members]
        self.num_batches = [n // size if drop_last else -(-n // size) for n in counts]
        self.num_repeated = [max(0, m * size - n) for n, m in zip(counts, self.num_batches, strict=True)]
        self.num_dropped = [max(0, n - m * size) for n, m in zip(counts, self.num_batches, strict=True)]
        if not sum(self.num_batches):
            raise ValueError(
                f"No batch is left: global_batch_size is {size}, there are {counts[0]} examples with images and "
                f"{counts[1]} without, and drop_last leaves out what does not fill a batch. Lower "
                "global_batch_size or set drop_last=False."
            )

    def epoch(self, seed: int) -> _Epoch:
        """The batches in the order of one epoch's seed."""
        words, sizes = [], []
        for number, (members, count) in enumerate(zip(self.members, self.num_batches, strict=True)):
            if count:
                order = members[permute_block(0, len(members), len(members), derive_seed(seed, number))]
                words.append(np.resize(order, (count, self.size)))
                sizes.append(np.full(count, self.size))
                sizes[-1][-1] -= self.num_repeated[number]
        table, real = np.concatenate(words), np.concatenate(sizes)
        order = permute_block(0, len(table), len(table), derive_seed(seed, _BATCHES))
        first = int(table.min(axis=1)[order].argmin())
        order[[0, first]] = order[[first, 0]]
        return _Epoch(table[order], real[order])


class SplitModality(GlobalBatchSampler):
    """The sampler of the config group: each epoch the batches of `ModalityBatches`, nothing repeated.

    The last batch of a modality is smaller, or left out with `drop_last`; epochs do not share batches. How a
    batch is dealt to ranks is left to `runner.data.partition`, as with every sampler.
    """

    def __init__(
        self,
        dataset: ModalitySequences,
        num_epochs: float | None,
        num_batches: int | None,
        global_batch_size: int,
        seed: int,
        image_patches: int,
        drop_last: bool,
    ) -> None:
        """Raises ValueError as every sampler does, and if `drop_last` leaves out all there is."""
        super().__init__(dataset, num_epochs, num_batches, global_batch_size, seed)
        self.image_patches = image_patches
        self.drop_last = drop_last
        indices = np.arange(len(dataset))
        has_image = np.asarray(dataset.modalities(indices), dtype=bool)
        lengths = dataset.lengths(indices).astype(np.int64) + has_image * image_patches
        self._batches = ModalityBatches(has_image, lengths, global_batch_size, drop_last)
        self._epoch: tuple[int, _Epoch] | None = None

    def fingerprint(self) -> dict[str, Any]:
        """What the order depends on."""
        own = {"image_patches": self.image_patches, "drop_last": self.drop_last}
        return {**super().fingerprint(), **own}

    def global_batch(self, step: int) -> np.ndarray:
        """Global batch `step` as rows (epoch, index), int64 [B, 2]. Raises IndexError outside [0, len)."""
        self.check_step(step)
        epoch, number = divmod(step, self._batches_per_epoch())
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, self._batches.epoch(epoch_seed(self.seed, epoch))
        words, sizes = self._epoch[1]
        indices = words[number, : sizes[number]] & _INDEX
        return np.stack([np.full(len(indices), epoch), indices], axis=1)

    def __len__(self) -> int:
        if self.num_batches is not None:
            return self.num_batches
        assert self.num_epochs is not None
        return max(1, round(self.num_epochs * self._batches_per_epoch()))

    def _batches_per_epoch(self) -> int:
        return sum(self._batches.num_batches)


class SplitModalitySampler:
    """This rank's examples of global batches of one modality: a sampler for `torch.utils.data.DataLoader`.

    Every rank must be made with the same arguments but `rank`. A global batch is dealt to the ranks longest
    example first, each to the rank with the fewest tokens so far, equally many to each. `num_repeated` says
    how many examples of an epoch are repeats that fill up the last batch of a modality.
    """

    def __init__(
        self,
        dataset: Sized,
        modality_lengths: Sequence[tuple[bool, int]] | np.ndarray,
        global_batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        seed: int = 0,
        drop_last: bool = False,
        image_patches: int = 576,
    ) -> None:
        """Takes (has an image, text tokens) of each example; an image counts `image_patches` tokens more.

        The ranks are those of torch.distributed where they are not given. Raises ValueError for lengths that
        are not those of the dataset, an empty dataset, a batch below 1 or that the ranks do not divide, and a
        wrong rank.
        """
        check_sizes(global_batch_size, len(dataset))
        if num_replicas is None or rank is None:
            present = _distributed()
            num_replicas = present[1] if num_replicas is None else num_replicas
            rank = present[0] if rank is None else rank
        if len(modality_lengths) != len(dataset):
            raise ValueError(
                f"modality_lengths has {len(modality_lengths)} entries, but the dataset has {len(dataset)} "
                "examples: expected one for each."
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"rank is {rank}: expected one of the {num_replicas} ranks, counted from 0.")
        if global_batch_size % num_replicas:
            raise ValueError(
                f"global_batch_size is {global_batch_size}, which {num_replicas} ranks do not divide: "
                f"set it to a multiple of {num_replicas}."
            )
        has_image, lengths = _columns(modality_lengths)
        lengths += has_image * image_patches
        self.dataset = dataset
        self.global_batch_size = global_batch_size
        self.num_replicas = num_replicas
        self.rank = rank
        self.seed = seed
        self.drop_last = drop_last
        self.image_patches = image_patches
        self.epoch = 0
        self.position = 0
        self._batches = ModalityBatches(has_image, lengths, global_batch_size, drop_last)
        self.num_repeated = sum(self._batches.num_repeated)
        self._report()

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of `epoch`; another epoch than the present one starts at its beginning."""
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def fingerprint(self) -> dict[str, Any]:
        """What the global batches depend on; the number of ranks is not part of it."""
        return {
            "sampler": type(self).__name__,
            "seed": self.seed,
            "global_batch_size": self.global_batch_size,
            "dataset_length": len(self.dataset),
            "image_patches": self.image_patches,
            "drop_last": self.drop_last,
        }

    def state_dict(self) -> dict[str, Any]:
        """The epoch, the examples of it this rank has had, and what must agree to go on."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "num_replicas": self.num_replicas,
            "fingerprint": self.fingerprint(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state` was saved, on another number of ranks too if that was between global batches.

        Raises ValueError for a state of another order, and for one inside a batch dealt to other ranks.
        """
        check_fingerprint(state["fingerprint"], self.fingerprint())
        position, num_replicas = state["position"], state["num_replicas"]
        if num_replicas != self.num_replicas:
            if position * num_replicas % self.global_batch_size:
                raise ValueError(
                    f"The saved place is inside a global batch dealt to {num_replicas} ranks, and there are "
                    f"{self.num_replicas}: save between global batches to change the number of ranks."
                )
            position = position * num_replicas // self.num_replicas
        self.epoch, self.position = state["epoch"], position

    def __len__(self) -> int:
        """Examples this rank gets in an epoch."""
        return sum(self._batches.num_batches) * self._share()

    def __iter__(self) -> Iterator[int]:
        """This rank's examples from `position` on; after a complete pass the next one starts anew."""
        if self.position >= len(self):
            self.position = 0
        words = self._batches.epoch(epoch_seed(self.seed, self.epoch)).words
        share, step = self._share(), max(1, _CHUNK // self.global_batch_size)
        batch, skipped = divmod(self.position, share)
        for start in range(batch, len(words), step):
            indices = self._deal(words[start : start + step])[skipped:].tolist()
            for index in indices:
                self.position += 1
                yield index
            skipped = 0

    def _deal(self, words: np.ndarray) -> np.ndarray:
        """This rank's examples of batches [M, B], one after the other, int64 [M * B / R]."""
        words = np.sort(words, axis=1)
        owners = _deal_longest_first(self._batches.longest - (words >> 32), self.num_replicas)
        return words[np.ascontiguousarray((owners == self.rank).T)] & _INDEX

    def _share(self) -> int:
        return self.global_batch_size // self.num_replicas

    def _report(self) -> None:
        for name, repeated, dropped in zip(
            ("with images", "without images"),
            self._batches.num_repeated,
            self._batches.num_dropped,
            strict=True,
        ):
            if repeated:
                log.info("Each epoch repeats %d examples %s to fill up their last batch.", repeated, name)
            if dropped:
                log.info("Each epoch leaves out %d examples %s that fill no batch.", dropped, name)


def _deal_longest_first(lengths: np.ndarray, num_ranks: int) -> np.ndarray:
    """The rank of each example, int64 [B, M], given lengths int64 [M, B] that fall along each row.

    Each example goes to the rank with the least so far, of equals to the first; a rank with B / R examples is full.
    All batches take a step together. One word per rank and batch holds, from the top: the load, the word's own place
    in the table, the number of examples; so the least word of a batch tells where it stands.
    """
    num_batches, size = lengths.shape
    if num_ranks == 1:
        return np.zeros((size, num_batches), dtype=np.int64)
    share, full = size // num_ranks, 1 << 62
    count_bits, place_bits = share.bit_length(), (num_ranks * num_batches).bit_length()
    assert int(lengths.max()) * share < full >> (count_bits + place_bits)
    words = (np.arange(num_ranks * num_batches) << count_bits).reshape(num_ranks, num_batches)
    flat = words.reshape(-1)
    amounts = np.left_shift(lengths.T, count_bits + place_bits, order="C") + 1
    places = np.empty_like(amounts)
    least, count = np.empty((2, num_batches), dtype=np.int64)
    is_full = np.empty(num_batches, dtype=bool)
    for place, amount in zip(places, amounts, strict=True):
        np.min(words, axis=0, out=least)
        np.right_shift(least, count_bits, out=place)
        np.bitwise_and(place, (1 << place_bits) - 1, out=place)
        np.add(least, amount, out=least)
        np.bitwise_and(least, (1 << count_bits) - 1, out=count)
        np.equal(count, share, out=is_full)
        np.putmask(least, is_full, full)
        flat[place] = least
    return places // num_batches


def _columns(modality_lengths: Sequence[tuple[bool, int]] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each example has an image, bool [N], and its text tokens, a new int64 [N]."""
    if isinstance(modality_lengths, np.ndarray):
        return modality_lengths[:, 0] != 0, modality_lengths[:, 1].astype(np.int64)
    count = len(modality_lengths)
    has_image = np.fromiter(map(itemgetter(0), modality_lengths), dtype=bool, count=count)
    return has_image, np.fromiter(map(itemgetter(1), modality_lengths), dtype=np.int64, count=count)


def _distributed() -> tuple[int, int]:
    """Rank and number of ranks of the process group, (0, 1) without one."""
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
