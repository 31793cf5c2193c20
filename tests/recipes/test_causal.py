"""The causal recipe guesses next tokens better than counts of pairs of tokens do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import train_as
from tiryns import compose
from tiryns.runner.loop.assembly import assemble

PRIORS = (5, 10, 20, 50, 100)
"""Weights of the unigram distribution in counts of a pair; the best one is taken, by the held-out text itself."""


def pairs(sequences: Any, is_special: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each ordinary token of sequences that has one before it, behind that one."""
    ids, lengths = sequences.gather(np.arange(len(sequences)))
    inside = np.ones(len(ids), dtype=bool)
    inside[np.cumsum(lengths)[:-1]] = False  # the first tokens but the very first
    chosen = inside[1:] & ~is_special[ids[1:]]
    return ids[:-1][chosen], ids[1:][chosen]


def bigram_loss() -> float:
    """Nats per token of held-out text, by the counts of the training text."""
    parts = assemble(compose("experiment=clm"))
    size, special = parts.objective.vocab_size, parts.objective.is_special
    before, token = pairs(parts.data.train, special)
    counts, contexts = (
        np.bincount(before * size + token, minlength=size**2),
        np.bincount(before, minlength=size),
    )
    unigrams = (np.bincount(token, minlength=size) + 0.5) / (len(token) + 0.5 * size)
    before, token = pairs(parts.data.validation["held_out"], special)
    places = before * size + token
    smoothed = ((counts[places] + k * unigrams[token]) / (contexts[before] + k) for k in PRIORS)
    return float(min(-np.log(chances).mean() for chances in smoothed))


@pytest.mark.slow
def test_causal_recipe_beats_bigrams(tmp_path: Path) -> None:
    results = train_as(tmp_path / "run", ["experiment=clm"]).status["results"]
    baseline = bigram_loss()
    assert 4.5 < baseline < results["val/held_out/unigram_entropy"] - 1
    assert results["val/held_out/loss"] < baseline - 0.05
