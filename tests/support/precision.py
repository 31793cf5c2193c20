"""The precision that the tests train in: fp32, or the one that TIRYNS_TEST_PRECISION names (`make test-bf16`).

Runs get it as `trainer.precision`. Tests of models and steps run inside `as_in_training`, for that is where Lightning
takes forward, backward and update: inside its autocast. What is equal up to rounding is compared with the tolerances of
fp32, or with those of bf16 stated here.
"""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what is imported with conftest.py must not start torch, whose threads are set there
    import pytest
    from torch import Tensor, nn

KNOWN = ("32-true", "bf16-mixed")

PRECISION = os.environ.get("TIRYNS_TEST_PRECISION", "32-true")
"""`trainer.precision` of every run of the tests that does not name one itself."""

if PRECISION not in KNOWN:
    raise ValueError(f"TIRYNS_TEST_PRECISION={PRECISION!r} must be one of {', '.join(KNOWN)}")

BF16 = PRECISION == "bf16-mixed"

BF16_ERROR = 0.02
"""How far values made in bf16 may be off, as a share of their norm: some ten roundings of 2^-9 each add up to it."""

SMALL_SHARE = 0.1
"""A gradient below this share of the norm of all is held to it instead: of keys' biases, 0 but for rounding."""


def as_in_training() -> AbstractContextManager[object]:
    """Lightning's context around a step on a CPU in `PRECISION`."""
    from lightning.pytorch.plugins.precision import MixedPrecision

    return MixedPrecision("bf16-mixed", "cpu").forward_context() if BF16 else nullcontext()


def in_fp32() -> AbstractContextManager[object]:
    """For what others are held against: no autocast, whatever the tests are run in."""
    import torch

    return torch.autocast("cpu", enabled=False)


EXACTLY = 1e-12
"""How far two values may be off in fp64, whatever they may be in fp32."""

_exact = False


@contextmanager
def in_fp64() -> Iterator[None]:
    """Inside models are made in fp64, as a run at `64-true` has them, and every tolerance here is `EXACTLY`."""
    import torch

    global _exact
    _exact = True
    torch.set_default_dtype(torch.float64)
    try:
        with in_fp32():
            yield
    finally:
        torch.set_default_dtype(torch.float32)
        _exact = False


def pretend_units(monkeypatch: "pytest.MonkeyPatch", bf16: bool, amx: bool = False) -> None:
    """Makes this CPU one with units for bf16, or one without, whose rule `trainer.precision=auto` follows untimed."""
    from tiryns.runner.loop import trials
    from tiryns.runner.patches.torch import processor

    for name, there in (("has_amx", amx), ("has_avx512_bf16", bf16)):
        monkeypatch.setattr(processor, name, lambda there=there: there)
    monkeypatch.setattr(trials, "_best_precision", lambda precisions, *_: precisions[0])


def rounding(fp32: float, bf16: float) -> float:
    """The tolerance of `PRECISION`."""
    if _exact:
        return min(fp32, EXACTLY)
    return bf16 if BF16 else fp32


def assert_close(
    found: "Tensor",
    expected: "Tensor",
    least: float = 0.0,
    name: str = "",
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> None:
    """Fails where tensors differ by more than rounding; `atol` and `rtol` go to `torch.testing.assert_close` in fp32.

    In bf16 the norm of the difference may be `BF16_ERROR` of the norm of the expected, or of `least` if that is more;
    what is infinite in one must be so in the other.
    """
    if _exact:
        atol = rtol = EXACTLY
        assert found.dtype == expected.dtype, name
    if _exact or not BF16:
        import torch

        torch.testing.assert_close(found, expected, msg=name or None, atol=atol, rtol=rtol)
        return
    found, expected = found.detach().double(), expected.detach().double()
    assert found.shape == expected.shape, name
    finite = expected.isfinite()
    assert found[~finite].equal(expected[~finite]), name
    found, expected = found[finite], expected[finite]
    error, norm = float((found - expected).norm()), max(float(expected.norm()), least)
    assert error <= BF16_ERROR * norm, f"{name}: {error:.3g} off, where {BF16_ERROR} of {norm:.3g} is allowed"


Gradients = Mapping[str, "Tensor | None"]


def gradients(model: "nn.Module") -> Gradients:
    """The gradient of every parameter by name."""
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_gradients_close(
    found: Gradients, expected: Gradients, *, atol: float | None = None, rtol: float | None = None
) -> None:
    """Fails where a parameter's gradient differs by more than rounding, or only one of the two models has it."""
    assert found.keys() == expected.keys()
    norms = [float(gradient.norm()) for gradient in expected.values() if gradient is not None]
    least = SMALL_SHARE * math.hypot(*norms)
    for name, gradient in expected.items():
        other = found[name]
        if gradient is None or other is None:
            assert gradient is other, name
        else:
            assert_close(other, gradient, least, name, atol=atol, rtol=rtol)
