"""LAMB, LARS, GaLore and Shampoo are those of their papers, where their libraries do something else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.optim.tiny import make, tiny_bert, train
from tests.support import needs
from tiryns.runner.optim import get_optimizer

SHAPES = ((200, 300), (70, 80), (300,), (1,))


def weights_and_gradients(steps: int) -> tuple[list[NDArray[Any]], list[list[NDArray[Any]]]]:
    """Tensors of norms 245, 0.7, 35 and 0, and gradients for them."""
    draw = np.random.default_rng(0)
    weights = [
        draw.normal(0, scale, shape) for shape, scale in zip(SHAPES, (1.0, 0.01, 2.0, 0.0), strict=True)
    ]
    return weights, [[draw.normal(0, 0.1, shape) for shape in SHAPES] for _ in range(steps)]


def lamb_of_the_paper(
    x: NDArray[Any], gradients: list[NDArray[Any]], lr: float, decay: float
) -> NDArray[Any]:
    """Algorithm 2 of arXiv 1904.00962v5, in float64."""
    m, v = np.zeros_like(x), np.zeros_like(x)
    for t, g in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        r = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6)
        size, length = np.linalg.norm(x), np.linalg.norm(r + decay * x)
        ratio = size / length if size > 0 and length > 0 else 1.0
        x = x - lr * ratio * (r + decay * x)
    return x


def lars_of_the_paper(
    x: NDArray[Any], gradients: list[NDArray[Any]], lr: float, decay: float
) -> NDArray[Any]:
    """Algorithm 1 of arXiv 1708.03888 for matrices, SGD for vectors, in float64."""
    m = np.zeros_like(x)
    for g in gradients:
        size = np.linalg.norm(x)
        ratio = 1e-3 * size / (np.linalg.norm(g) + decay * size) if x.ndim > 1 else 1.0
        m = 0.9 * m + ratio * (g + decay * x)
        x = x - lr * m
    return x


@pytest.mark.parametrize(("quantized", "tolerance"), [(False, 2e-5), (True, 2e-2)])
@pytest.mark.parametrize(("formula", "lr"), [(lamb_of_the_paper, 0.02), (lars_of_the_paper, 1.0)])
def test_lamb_and_lars_are_those_of_their_papers_whatever_the_norm(
    formula: Callable[..., NDArray[Any]], lr: float, quantized: bool, tolerance: float
) -> None:
    if quantized:
        needs.package("bitsandbytes")
    starts, gradients = weights_and_gradients(steps=5)
    assert np.linalg.norm(starts[0]) > 240
    tensors = [torch.nn.Parameter(torch.tensor(x, dtype=torch.float32)) for x in starts]
    settings = {"lr": lr, "weight_decay": 0.1, "decay_vectors": True}
    optimizer = get_optimizer(formula.__name__[:4], tensors, settings, quantized)
    for step in gradients:
        for p, g in zip(tensors, step, strict=True):
            p.grad = torch.tensor(g, dtype=torch.float32)
        optimizer.step()
    for i, p in enumerate(tensors):
        expected = formula(starts[i], [step[i] for step in gradients], lr, 0.1)
        moved = np.linalg.norm(expected - starts[i])
        assert moved > 0
        assert np.linalg.norm(p.detach().numpy() - expected) < tolerance * moved


def test_galore_chooses_its_space_at_steps_0_and_every_gap_behind() -> None:
    model = tiny_bert()
    optimizer = make("galore", False, model, update_proj_gap=3)
    weight = model.get_parameter("bert.encoder.layer.0.intermediate.dense.weight")
    spaces = []

    def look(step: int) -> None:
        spaces.append(optimizer.state[weight]["projector"].ortho_matrix.clone())

    train(model, optimizer, range(8), after_step=look)
    chosen = [i for i in range(8) if i == 0 or not torch.equal(spaces[i], spaces[i - 1])]
    assert chosen == [0, 3, 6]


def test_shampoo_keeps_statistics_of_both_sides_of_a_small_matrix() -> None:
    head = torch.nn.Parameter(torch.randn(2, 64))
    optimizer = get_optimizer("shampoo", [head], {"preconditioning_compute_steps": 1})
    head.grad = torch.randn(2, 64)
    optimizer.step()
    sides = [tuple(s.shape) for s in optimizer.state[head]["pre_conditioner"].statistics]
    assert sides == [(2, 2), (64, 64)]


def test_shampoo_does_not_depend_on_what_was_drawn_before() -> None:
    ends = []
    for drawn in (0, 7):
        torch.manual_seed(1)
        head = torch.nn.Parameter(torch.randn(40, 64))
        optimizer = get_optimizer("shampoo", [head], {"preconditioning_compute_steps": 1, "lr": 0.1})
        optimizer.param_groups[0]["step"] = 20  # behind the steps of the simpler optimizer
        head.grad = torch.randn(40, 64)
        torch.rand(drawn)
        state = torch.get_rng_state()
        optimizer.step()
        assert torch.equal(torch.get_rng_state(), state)
        ends.append(head.detach())
    assert torch.equal(*ends)
