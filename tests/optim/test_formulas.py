"""StableAdamW, NorMuon and the two kinds of decay are those of their formulas, computed in float64."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.optim.tiny import NAMES, VARIANTS, make
from tests.support.precision import pretend_units
from tiryns.runner.optim import get_optimizer, loop_needs

Array = NDArray[Any]
FACTORS = (0.5, 1.0, 1.0, 0.7)
"""The schedule: parts of the peak rate."""

DECOUPLED = (
    "adafactor", "adamw", "galore", "lion", "muon", "normuon", "shampoo", "soap", "sophiah", "stable_adamw",
)  # fmt: skip


def run_steps(name: str, start: Array, gradients: list[Array], **settings: Any) -> Array:
    """The weights after a step per gradient, at the rates of the schedule."""
    weight = torch.nn.Parameter(torch.tensor(start, dtype=torch.float32))
    optimizer = get_optimizer(name, [("layer.0.weight", weight)], settings)
    peak = optimizer.param_groups[0]["lr"]
    for gradient, factor in zip(gradients, FACTORS, strict=True):
        optimizer.param_groups[0]["lr"] = peak * factor
        weight.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
    return weight.detach().numpy().astype(np.float64)


def stable_adamw_by_formula(
    p: Array, gradients: list[Array], lr: float, decay: float, fully_decoupled: bool, cautious: bool
) -> tuple[Array, list[float]]:
    """The weights, and by what each step divided the rate."""
    m, v, (b1, b2), eps, ratios = np.zeros_like(p), np.zeros_like(p), (0.9, 0.98), 1e-6, []
    for t, (g, factor) in enumerate(zip(gradients, FACTORS, strict=True), start=1):
        bh1, bh2 = (b1**t - b1) / (b1**t - 1), (b2**t - b2) / (b2**t - 1)
        m, v = m + (1 - bh1) * (g - m), bh2 * v + (1 - bh2) * g**2
        ratios.append(max(1.0, float(np.sqrt(np.mean(g**2 / np.maximum(v, eps**2))))))
        rate = lr * factor / ratios[-1]
        u = m / (np.sqrt(v) + eps)
        shrink = decay * (rate / lr if fully_decoupled else rate)
        p = p - shrink * p * (u * p >= 0 if cautious else 1) - rate * u
    return p, ratios


@pytest.mark.parametrize(("fully_decoupled", "cautious"), [(False, False), (True, False), (True, True)])
def test_stable_adamw_is_its_formula(fully_decoupled: bool, cautious: bool) -> None:
    draw = np.random.default_rng(0)
    start = draw.normal(0, 0.1, (40, 30))
    gradients = [draw.normal(0, scale, start.shape) for scale in (0.1, 0.1, 2.0, 0.1)]
    expected, ratios = stable_adamw_by_formula(start, gradients, 1e-2, 0.05, fully_decoupled, cautious)
    assert ratios[0] == ratios[3] == 1 < 1.5 < ratios[2], "the burst alone is damped"
    settings = {"lr": 1e-2, "weight_decay": 0.05, "betas": [0.9, 0.98], "eps": 1e-6}
    found = run_steps(
        "stable_adamw", start, gradients, fully_decoupled=fully_decoupled, cautious_decay=cautious, **settings
    )
    assert np.abs(found - expected).max() < 1e-6


POLAR_EXPRESS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)


def normuon_by_formula(p: Array, gradients: list[Array], lr: float, decay: float) -> Array:
    """NorMuon with Polar Express, mu 0.95 and beta2 0.9, and cautious decay."""
    rows, columns = p.shape
    side = 1 if rows >= columns else 0
    buffer, square = np.zeros_like(p), 0.0
    for g, factor in zip(gradients, FACTORS, strict=True):
        buffer = 0.95 * buffer + 0.05 * g
        u = 0.05 * g + 0.95 * buffer
        x = u / (1.02 * np.linalg.norm(u) + 1e-6)
        for a, b, c in POLAR_EXPRESS:
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        norm, mean = np.linalg.norm(x), (x**2).mean(axis=side, keepdims=True)
        square = 0.9 * square + 0.1 * mean
        x = x / np.sqrt(np.maximum(square, 1e-10))
        x *= norm / np.linalg.norm(x)
        rate = lr * factor
        p = p - rate * decay * p * (x * p >= 0) - rate * max(1, rows / columns) ** 0.5 * x
    return p


@pytest.mark.parametrize("shape", [(24, 24), (48, 16), (16, 48)])
def test_normuon_is_its_formula(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_units(monkeypatch, bf16=False)  # fp32
    draw = np.random.default_rng(1)
    start = draw.normal(0, 0.1, shape)
    sizes = draw.lognormal(0, 1, (shape[0], 1)) * draw.lognormal(0, 1, (1, shape[1]))
    gradients = [draw.normal(0, 1, shape) * sizes for _ in FACTORS]
    settings = {"lr": 0.02, "weight_decay": 1.2, "cautious_decay": True}
    expected = normuon_by_formula(start, gradients, 0.02, 1.2)
    found = run_steps("normuon", start, gradients, **settings)
    other = run_steps("muon", start, gradients, **settings)
    moved = np.linalg.norm(expected - start)
    assert np.linalg.norm(found - expected) < 1e-4 * moved
    assert np.linalg.norm(other - expected) > 0.05 * moved


def third_step(name: str, quantized: bool, **settings: Any) -> tuple[Array, Array, float]:
    """A matrix before and after its third step, which is at half the peak rate and the first that decays; its rate."""
    torch.manual_seed(0)
    weight, targets = torch.nn.Parameter(torch.randn(64, 80)), torch.randn(3, 64, 80)
    optimizer = make(name, quantized, [("layer.0.weight", weight)], **settings)  # type: ignore[arg-type]
    group, needs = optimizer.param_groups[0], loop_needs(optimizer)
    decay, group["weight_decay"] = group["weight_decay"], 0.0
    before = weight.detach().clone()
    for step, target in enumerate(targets):
        with needs.step(step):
            (weight - target).square().sum().backward(create_graph=needs.create_graph)
            needs.after_backward()
            if step == 2:
                group["lr"], group["weight_decay"] = group["lr"] * 0.5, decay
                before = weight.detach().clone()
            optimizer.step()
        optimizer.zero_grad()
    return before.double().numpy(), weight.detach().double().numpy(), group["lr"]


@pytest.mark.rows(6)
@pytest.mark.parametrize(("name", "quantized"), [v for v in VARIANTS if v.values[0] in DECOUPLED])
@pytest.mark.parametrize("fully_decoupled", [False, True])
def test_decay_is_as_asked(name: str, quantized: bool, fully_decoupled: bool) -> None:
    start, without, rate = third_step(name, quantized, weight_decay=0.0)
    decay = 2e-3 if fully_decoupled else 1e-3 / rate
    settings = {"weight_decay": decay, "fully_decoupled": fully_decoupled}
    update = start - without
    shrunk = (0.5 if fully_decoupled else rate) * decay * start
    _, plain, _ = third_step(name, quantized, **settings)
    _, cautious, _ = third_step(name, quantized, cautious_decay=True, **settings)
    agrees = update * start >= 0
    assert 0.2 < agrees.mean() < 0.9
    assert np.abs(without - plain - shrunk).max() < 0.06 * np.abs(shrunk).max()
    assert np.abs(without - cautious - agrees * shrunk).max() < 1e-3 * np.abs(shrunk).max()


def test_decay_that_is_part_of_the_update_is_neither_full_nor_cautious() -> None:
    weight = [torch.nn.Parameter(torch.ones(2, 2))]
    for name in set(NAMES) - set(DECOUPLED):
        for setting in ("fully_decoupled", "cautious_decay"):
            with pytest.raises(ValueError, match=f"{name} has no decay that is .* set {setting}=false"):
                get_optimizer(name, weight, {setting: True})


def test_what_has_no_gradient_does_not_decay_and_a_rate_of_zero_has_no_unit() -> None:
    used, unused = (torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2))
    optimizer = get_optimizer(
        "adamw", [used, unused], {"weight_decay": 0.1, "cautious_decay": True, "fully_decoupled": True}
    )
    used.sum().backward()
    optimizer.step()
    assert torch.equal(unused, torch.ones(2, 2))
    torch.testing.assert_close(used.detach(), torch.full((2, 2), 1 - 0.1 - 1e-3))
    still = get_optimizer("adamw", [used], {"lr": 0.0, "weight_decay": 0.1, "fully_decoupled": True})
    assert still.param_groups[0]["weight_decay"] == 0.1
