"""A discriminator knows replaced tokens by the text alone: labels cannot be read off its input in any other way."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.models.pretraining.test_replaced_tokens import LENGTHS, detector
from tests.objectives.samples import END, SPECIAL, START, VOCABULARY, documents, flat
from tiryns.runner.models.pretraining.replaced_tokens import area


def random_texts(seed: int, structured: bool) -> list[np.ndarray]:
    """Documents of tokens drawn each for itself from a skewed distribution, or each followed by the next number."""
    draw = np.random.default_rng(seed)
    if structured:
        firsts = draw.integers(5, 100, 32)
        return [np.array([START, *range(first, first + 22), END]) for first in firsts]
    inner = draw.choice(VOCABULARY, (32, 22), p=unigram())
    return [np.array([START, *row, END]) for row in inner]


def unigram() -> np.ndarray:
    weights = 1 / np.arange(1.0, VOCABULARY + 1)
    weights[list(SPECIAL)] = 0
    return weights / weights.sum()


def area_after_training(structured: bool, **fields: Any) -> float:
    """Of a discriminator whose generator knows the distribution of single tokens exactly, and nothing else."""
    make, model = detector(spread=0.02, discriminator_head="deberta", kept_share=0.5, **fields)
    logits = torch.from_numpy(np.log(unigram() + 1e-12)).float()
    model.generator.logits = lambda hidden: logits.expand(len(hidden), -1) + 0 * hidden.sum()  # type: ignore[method-assign]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(60):
        batch = make(flat(random_texts(step, structured), epoch=step))
        optimizer.zero_grad()
        (model(batch)["loss"] / batch["weight"]).backward()
        optimizer.step()
    totals: dict[str, float] = {}
    with torch.no_grad():
        for step in range(1000, 1010):
            batch = make(flat(random_texts(step, structured), epoch=step))
            positions, targets = batch["target_positions"], batch["targets"]
            sampled = model.generator(batch)["sampled"]
            places = torch.arange(batch["input_ids"].numel())
            inner = ~torch.isin(batch["input_ids"].flatten(), torch.tensor([START, END]))
            seen = batch["input_ids"].flatten().index_copy(0, positions, sampled)
            changed = torch.isin(places, positions[sampled != targets])
            scores = model.detect({**batch, "input_ids": seen.view_as(batch["input_ids"])}).flatten()
            for name, chosen in (("replaced", changed & inner), ("original", ~changed & inner)):
                counts = torch.histc(scores[chosen], 400, -10, 10).tolist()
                for i, count in enumerate(counts):
                    totals[f"{name}/{i}"] = totals.get(f"{name}/{i}", 0.0) + count
    return area(*([totals[f"{name}/{i}"] for i in range(400)] for name in ("replaced", "original")))


@pytest.mark.slow
def test_nothing_but_the_text_tells_replaced_tokens() -> None:
    """Samples of a generator that is exactly right are told from the originals by chance: no mask, place or key tells.

    What is left: rare tokens are more often replaced ones, as a sample of a frequent one may be the original.
    """
    assert area_after_training(structured=False) < 0.56
    assert area_after_training(structured=True) > 0.8, "where the text tells them, they are found"


def test_the_discriminator_sees_neither_masks_nor_originals() -> None:
    """Its input is the text with samples in it: another mask of the same places and samples gives the same logits."""
    make, model = detector(kept_share=0.0)
    other, _ = detector(kept_share=1.0)
    texts = documents(LENGTHS)
    logits = torch.from_numpy(np.log(unigram() + 1e-12)).float()
    model.generator.logits = lambda hidden: logits.expand(len(hidden), -1) + 0 * hidden.sum()  # type: ignore[method-assign]
    masked, plain = make(flat(texts)), other(flat(texts))
    assert not masked["input_ids"].equal(plain["input_ids"])
    seen: list[Tensor] = []
    model.pretrained.base_model.register_forward_pre_hook(
        lambda module, args, given: seen.append(given["input_ids"]), with_kwargs=True
    )
    model(masked), model(plain)
    assert seen[0].equal(seen[1])
    assert not (seen[0] == 4).any(), "no mask token"
