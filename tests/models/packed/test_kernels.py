"""Flash attention on a GPU gets dropout where it takes it, and all else that attention is told.

A module `flash_attn` that computes plain attention document by document stands in for the package.
"""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import varlen

from tests.models.test_no_waiting import packed_case
from tests.support.precision import assert_close, in_fp32
from tiryns.runner.models.packed import attention as packed_attention
from tiryns.runner.models.packed import kernels

LENGTHS = [5, 9, 1, 7]


class Package:
    """What the stand-in was called with."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
        max_seqlen_q: int,
        max_seqlen_k: int,
        dropout_p: float = 0.0,
        softmax_scale: float | None = None,
        causal: bool = False,
        window_size: tuple[int, int] = (-1, -1),
    ) -> Tensor:
        """The signature of `flash_attn_varlen_func`; drops nothing."""
        self.calls.append({"dropout": dropout_p, "scale": softmax_scale, "window": window_size})
        assert cu_seqlens_q is cu_seqlens_k
        assert max_seqlen_q == max_seqlen_k
        if q.is_meta:
            return q + k + v  # all have gradients
        outs = []
        for start, stop in zip(cu_seqlens_q[:-1].tolist(), cu_seqlens_q[1:].tolist(), strict=True):
            ahead = torch.arange(stop - start) - torch.arange(stop - start)[:, None]
            before, behind = (side if side >= 0 else stop for side in window_size)
            seen = (-ahead <= before) & (ahead <= behind)
            q_d, k_d, v_d = (x[start:stop].transpose(0, 1) for x in (q, k, v))
            out = torch.nn.functional.scaled_dot_product_attention(q_d, k_d, v_d, seen, scale=softmax_scale)
            outs.append(out.transpose(0, 1))
        return torch.cat(outs)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """A package `flash_attn` on what looks like a GPU with flash attention."""
    made, found = Package(), ModuleType("flash_attn")
    found.flash_attn_varlen_func = made.attention  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", found)
    monkeypatch.setattr(kernels, "find_spec", lambda name: found)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    monkeypatch.setattr(packed_attention, "_has_flash", lambda _: True)
    kernels.flash_kernel.cache_clear()
    yield made
    kernels.use_kernel(None)


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_dropout_of_training_reaches_the_kernel(package: Package, architecture: str) -> None:
    model, batch = packed_case("mlm", architecture, 0.1)
    model(batch)["loss"].backward()
    assert [call["dropout"] for call in package.calls] == [0.1] * 2, "one call for each layer"
    package.calls.clear()
    model.eval()(batch)
    assert [call["dropout"] for call in package.calls] == [0.0] * 2
    package.calls.clear()
    model, batch = packed_case("mlm", architecture, 0.0)
    model(batch)
    assert [call["dropout"] for call in package.calls] == [0.0] * 2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_scale_window_and_direction_reach_the_kernel(
    package: Package, scale: float | None, window: int | None, causal: bool
) -> None:
    module = torch.nn.Module()
    module.is_causal = causal  # type: ignore[assignment]
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 2, sum(LENGTHS), 16) for _ in range(3))
    bounds = torch.tensor([0, *LENGTHS], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    found = []
    for dropout in (0.2, 0.0):  # the stand-in drops nothing; without dropout a CPU's own kernel computes
        with in_fp32():
            out, _ = packed_attention.packed_attention(
                module, query, key, value, None, scale, dropout, window, bounds, max(LENGTHS)
            )
        found.append(out)
    assert len(package.calls) == 1
    before = -1 if window is None else window - 1
    assert package.calls[0] == {
        "dropout": 0.2, "scale": 0.25 if scale is None else scale, "window": (before, 0 if causal else before),
    }  # fmt: skip
    assert_close(found[0], found[1], atol=1e-5, rtol=1e-5)


def test_torch_has_no_dropout_so_rows_are_padded(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels.use_kernel("varlen_attn")
    padded: list[float] = []
    fused: list[Any] = []
    pad, run = packed_attention._attend_padded, varlen.varlen_attn

    def padding(*arguments: Any) -> Tensor:
        padded.append(arguments[-1].dropout)
        return pad(*arguments)

    monkeypatch.setattr(packed_attention, "_attend_padded", padding)
    model, batch = packed_case("mlm", "bert", 0.1)
    model(batch)["loss"].backward()
    assert padded == [0.1] * 2
    padded.clear()
    find = packed_attention.flash_kernel

    def finding(*arguments: Any) -> Any:
        fused.append(kernel := find(*arguments))
        return kernel

    monkeypatch.setattr(packed_attention, "flash_kernel", finding)
    model.eval()(batch)
    assert [kernel.func for kernel in fused] == [run] * 2, "without dropout it computes"
    assert not padded
    assert not package.calls


def test_torchs_kernel_is_asked_for_what_its_signature_has(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    def newer(query: Tensor, *, dropout_p: float = 0.0) -> Tensor:
        return query

    kernels.use_kernel("varlen_attn")
    assert kernels.flash_kernel((-1, -1), 0.25, 16, 0.1) is None
    monkeypatch.setattr(varlen, "varlen_attn", newer)
    kernels.flash_kernel.cache_clear()
    found: Any = kernels.flash_kernel((-1, -1), 0.25, 16, 0.1)
    assert (found.func, found.keywords) == (newer, {"dropout_p": 0.1})
    assert kernels.flash_kernel((2, 2), 0.25, 16, 0.1) is None, "which has no window"


def test_chosen_kernel_is_the_one_that_runs(package: Package) -> None:
    ran = {}
    for name in ("flash_attn", "varlen_attn", None):
        kernels.use_kernel(name)
        kernel: Any = kernels.flash_kernel((-1, -1), 0.25, 16)
        ran[name] = kernel.func
    assert ran["flash_attn"] == ran[None] == package.attention
    assert ran["varlen_attn"] is varlen.varlen_attn


def test_large_heads_with_dropout_are_left_to_padded_rows(package: Package) -> None:
    assert kernels.flash_kernel((-1, -1), 1.0, 256, 0.0) is not None
    assert kernels.flash_kernel((-1, -1), 1.0, 192, 0.1) is not None
    assert kernels.flash_kernel((-1, -1), 1.0, 256, 0.1) is None
