"""NEFTune: uniform noise by the sample's own length, the same in every layout and cut, in training alone."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tiryns.runner.models.packed.dropout import replace_dropout
from tiryns.runner.models.packed.dropout_keys import add_embedding_noise, dropout_keys

pytestmark = pytest.mark.fp32

LENGTHS, WIDTH, ALPHA = (3, 40, 7), 64, 5.0


class Model(nn.Module):
    """Embeddings alone, all 0."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(10, WIDTH, _weight=torch.zeros(10, WIDTH))
        replace_dropout(self)

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings


def noise(packed: bool, samples: tuple[int, ...] = (0, 1, 2), seed: int = 1, passes: int = 1) -> list[Tensor]:
    """The noise of each sample [T, H] in the last pass."""
    model, lengths = Model(), [LENGTHS[i] for i in samples]
    add_embedding_noise(model, ALPHA)  # type: ignore[arg-type]
    batch: Any = {"sample_keys": torch.tensor([100 + i for i in samples])}
    if packed:
        batch["input_ids"] = torch.zeros(1, sum(lengths), dtype=torch.long)
        batch["cu_seqlens"] = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)
    else:
        batch["input_ids"] = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
        batch["attention_mask"] = torch.tensor([[1] * n + [0] * (max(lengths) - n) for n in lengths])
    with dropout_keys(batch, seed):
        for _ in range(passes):
            found = model.embeddings(batch["input_ids"])
    return list(found[0].split(lengths)) if packed else [found[i, :n] for i, n in enumerate(lengths)]


@pytest.mark.parametrize("packed", [False, True])
def test_noise_is_uniform_in_the_radius_of_the_formula(packed: bool) -> None:
    for length, found in zip(LENGTHS, noise(packed), strict=True):
        radius = ALPHA / math.sqrt(length * WIDTH)
        assert 0.95 * radius < float(found.abs().max()) <= radius
        assert float(found.mean()) == pytest.approx(0, abs=0.15 * radius)
        assert float(found.std()) == pytest.approx(radius / math.sqrt(3), rel=0.1)


def test_noise_is_that_of_the_sample_in_every_layout_and_cut() -> None:
    expected = noise(packed=False)
    for found in (noise(packed=True), noise(True, (1,)), noise(False, (1, 2)), noise(True, (2, 0))):
        for sample in found:
            (theirs,) = (e for e in expected if e.shape == sample.shape)
            assert torch.equal(sample, theirs)


def test_noise_differs_between_samples_positions_steps_and_passes() -> None:
    first = noise(packed=True)
    assert not torch.equal(first[0] * math.sqrt(3), first[1][:3] * math.sqrt(40))
    assert not torch.equal(first[1][0], first[1][1])
    assert not torch.equal(first[1], noise(packed=True, seed=2)[1])
    assert not torch.equal(first[1], noise(packed=True, passes=2)[1])


def test_there_is_none_in_validation() -> None:
    model = Model()
    add_embedding_noise(model, ALPHA)  # type: ignore[arg-type]
    ids = torch.zeros(1, 4, dtype=torch.long)
    batch: Any = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "sample_keys": torch.tensor([1])}
    assert not model.embeddings(ids).any(), "outside of a step"
    with dropout_keys(batch, 1):
        assert model.embeddings(ids).any()
        model.eval()
        assert not model.embeddings(ids).any()
