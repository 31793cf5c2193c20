"""Hours of a run on GPUs of other types, from its operations."""

from typing import Any

from tiryns.runner.models.flops import peak_flops

GPUS = ("A100", "H100", "H200", "RTX 4090")
"""The types that a plan counts hours for."""

UTILISATION = 0.4
"""Share of the peak at which a GPU is assumed to train; what a run reaches is `perf/mfu` in its log."""


def flops_per_second(name: str) -> float:
    """What a GPU of a type is assumed to reach."""
    return UTILISATION * (peak_flops(name, "bf16-mixed") or 0.0)


def tokens_in(seconds: float, name: str, flops_per_token: float) -> float:
    """The tokens that one GPU of a type trains on."""
    return seconds * flops_per_second(name) / flops_per_token


def on_gpus(flops: float, tokens: int, seconds: float | None = None) -> list[dict[str, Any]]:
    """The hours and tokens of one GPU of each type, for a run of so many FLOPs or, where they are given, of seconds.

    Example:
        >>> [(gpu["name"], round(gpu["hours"])) for gpu in on_gpus(flops=1e21, tokens=10**12)][:2]
        [('A100', 2226), ('H100', 702)]
    """
    rows = []
    for name in GPUS:
        speed = flops_per_second(name)
        share = 1.0 if seconds is None else seconds * speed / flops
        hours = (flops / speed if seconds is None else seconds) / 3600
        rows.append(
            {
                "name": name,
                "peak_tflops": speed / UTILISATION / 1e12,
                "hours": hours,
                "tokens": share * tokens,
            }
        )
    return rows
