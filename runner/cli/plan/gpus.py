"""Hours of a run on GPUs of other types, from its operations."""

from typing import Any

from tiryns.runner.models.flops import peak_flops

GPUS = ("A100", "H100", "H200", "RTX 4090")
"""The types that a plan counts hours for."""

UTILISATION = 0.4
"""Share of the peak at which a GPU is assumed to train; what a run reaches is `perf/mfu` in its log."""


def on_gpus(flops: float, tokens: int) -> list[dict[str, Any]]:
    """Returns the hours of one GPU of each type for a run of so many FLOPs.

    Example:
        >>> [(gpu["name"], round(gpu["hours"])) for gpu in on_gpus(flops=1e21, tokens=10**12)][:2]
        [('A100', 2226), ('H100', 702)]
    """
    peaks = {name: peak_flops(name, "bf16-mixed") or 0.0 for name in GPUS}
    return [
        {
            "name": name,
            "peak_tflops": peak / 1e12,
            "hours": flops / (UTILISATION * peak) / 3600,
            "tokens": tokens,
        }
        for name, peak in peaks.items()
    ]
