"""Random numbers keyed by sample, against other ways to draw one per token: `make bench ONLY=keyed`.

Seeding a generator for every sample gives the same independence of order; one generator for all does not, and shows
what independence costs.
"""

import numpy as np
import torch

from tests.benchmarks.data.bench_permute import interleaved, table
from tiryns.runner.order.keyed import sample_keys, token_bits, uniform

NUM_DOCUMENTS = 20_000


def main() -> None:
    """Prints the table."""
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.lognormal(5, 1, NUM_DOCUMENTS), 1, 1024).astype(np.int32)
    epochs, indices = np.zeros(NUM_DOCUMENTS, dtype=np.int64), draw.permutation(NUM_DOCUMENTS)
    total = int(lengths.sum())

    def bits() -> np.ndarray:
        return token_bits(sample_keys(1, epochs, indices, 0), lengths)

    def generator_per_sample() -> list[np.ndarray]:
        pairs = zip(indices.tolist(), lengths.tolist(), strict=True)
        return [np.random.default_rng((1, 0, i)).random(length, dtype=np.float32) for i, length in pairs]

    seconds = interleaved(
        {
            "keyed bits": bits,
            "keyed uniform floats": lambda: uniform(bits()),
            "numpy, one generator per sample": generator_per_sample,
            "numpy, one generator for all": lambda: np.random.default_rng(1).random(total, dtype=np.float32),
            "torch.rand, one generator for all": lambda: torch.rand(total),
        }
    )
    print(f"One number for each of {total:,} tokens of {NUM_DOCUMENTS:,} documents\n")
    table(("", "million tokens a second"), [(name, f"{total / s / 1e6:.0f}") for name, s in seconds.items()])
