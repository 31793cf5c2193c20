"""Datasets that know lengths and modalities, and nothing else."""

import numpy as np


class Sequences:
    """Sequences of given lengths; those with images are marked."""

    def __init__(self, lengths: np.ndarray, has_image: np.ndarray) -> None:
        self.table = lengths.astype(np.int32)
        self.has_image = has_image.astype(bool)

    def __len__(self) -> int:
        return len(self.table)

    def lengths(self, indices: np.ndarray) -> np.ndarray:
        return self.table[indices]

    def modalities(self, indices: np.ndarray) -> np.ndarray:
        return self.has_image[indices]


def sequences(count: int, image_share: float = 0.4, seed: int = 0) -> Sequences:
    """So many sequences of uneven lengths, a share of them with images."""
    draw = np.random.default_rng(seed)
    return Sequences(np.clip(draw.lognormal(4, 1, count), 1, 512), draw.random(count) < image_share)
