"""Global batches of one modality each, all with images or all text, as in LLaVA 1.5 (arXiv 2310.03744)."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.order.permutation import epoch_seed
from tiryns.runner.samplers.base import Fingerprint, GlobalBatchSampler, SizedSequences
from tiryns.runner.samplers.modality_batches import ModalityBatches


class ModalitySequences(SizedSequences, Protocol):
    """Sequences of which some come with images.

    Example:
        >>> class Texts(list):
        ...     lengths = lambda self, indices: np.array([len(self[i]) for i in indices], dtype=np.int32)
        ...     modalities = lambda self, indices: np.zeros(len(indices), dtype=bool)
    """

    def modalities(self, indices: NDArray[np.int64], /) -> NDArray[np.bool_]:
        """Returns whether each sample has images, bool [D], given indices int64 [D]."""
        ...


@dataclass(eq=False, repr=False)
class SplitModality(GlobalBatchSampler):
    """The option `sampler=split_modality`: serves the batches of `ModalityBatches` in each epoch, without repeats.

    An image adds `image_patches` tokens to a length, unless the dataset's `lengths_count_images` is true. The last batch
    of a modality is smaller, or left out with `drop_last`; epochs do not share batches. B examples make a global batch.

    Example:
        >>> class Samples(list):
        ...     lengths = lambda self, indices: np.array([self[i][1] for i in indices], dtype=np.int32)
        ...     modalities = lambda self, indices: np.array([self[i][0] for i in indices])
        >>> samples = Samples([(True, 90), (False, 7), (True, 20), (False, 8)])
        >>> sampler = SplitModality(samples, 1, None, global_batch_size=2, seed=0, image_patches=576, drop_last=False)
        >>> [sorted(sampler.global_batch(step)[:, 1].tolist()) for step in range(len(sampler))]
        [[0, 2], [1, 3]]
    """

    dataset: ModalitySequences
    image_patches: int
    drop_last: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        dataset = self.dataset
        if not hasattr(dataset, "modalities"):
            raise ValueError(
                "sampler=split_modality separates examples with and without images, and this data is text alone: take "
                "sampler=length_grouped or sampler=shuffled, or data with images such as data=image_text"
            )
        self._batches = ModalityBatches(
            dataset.modalities, self._lengths, len(dataset), self.global_batch_size, self.drop_last
        )

    def fingerprint(self) -> Fingerprint:
        return super().fingerprint() | {"image_patches": self.image_patches, "drop_last": self.drop_last}

    def global_batch(self, step: int) -> NDArray[np.int64]:
        self.check_step(step)
        epoch, number = divmod(step, self._batches.per_epoch)
        epoch += self.first_epoch
        batches, sizes = self._batches.take(np.array([number]), epoch_seed(self.seed, epoch))
        indices = batches[0, : sizes[0]]
        return np.stack([np.full(len(indices), epoch), indices], axis=1)

    def __len__(self) -> int:
        if self.num_batches is not None:
            return self.num_batches
        assert self.num_epochs is not None
        return max(1, round(self.num_epochs * self._batches.per_epoch))

    def epochs_before(self, step: int) -> float:
        return step / self._batches.per_epoch

    def epochs_of_pass(self) -> int:
        return -(-len(self) // self._batches.per_epoch)

    def _lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        lengths = self.dataset.lengths(indices).astype(np.int64)
        if not getattr(self.dataset, "lengths_count_images", False):
            lengths += np.asarray(self.dataset.modalities(indices), dtype=bool) * self.image_patches
        return lengths
