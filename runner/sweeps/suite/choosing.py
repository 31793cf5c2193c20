"""Which setting of a grid is chosen, and which get no more seeds: successive halving over the seeds.

All settings are run with the first seed. After each seed those that failed are out, and the best `keep` share of the
others goes on, by the mean of the validation figure so far; of equal ones the earlier in the grid. Where nothing is left
to choose between, the other seeds are run at once. The idea is that of Jamieson and Talwalkar 2016 (arXiv 1502.07943).
"""

import math
import statistics
from collections.abc import Mapping
from typing import NamedTuple

Place = tuple[int, int]
"""The number of a setting, and that of a seed."""


class Standing(NamedTuple):
    """How far a grid has come."""

    wanted: list[Place]
    """Jobs to run next; empty once the setting is chosen, or all have failed."""
    dropped: list[int]
    """Settings that get no more seeds."""
    failed: list[int]
    """Settings of which a job has failed."""
    chosen: int | None
    """The chosen setting, once there is nothing left to run; None where all have failed."""


def standing(
    num_settings: int,
    num_seeds: int,
    keep: float,
    larger_is_better: bool,
    figures: Mapping[Place, float | None],
) -> Standing:
    """What to run next, from the validation figures of the jobs that have ended; None for a job that has failed.

    Example:
        >>> standing(2, 2, 0.5, True, {(0, 0): 0.7, (1, 0): 0.8}).wanted
        [(1, 1)]
        >>> standing(2, 2, 0.5, True, {(0, 0): 0.7, (1, 0): 0.8, (1, 1): 0.6}).chosen
        1
    """
    alive, dropped, failed = list(range(num_settings)), list[int](), list[int]()
    sign = -1 if larger_is_better else 1
    for seed in range(num_seeds):
        at_once = num_seeds if len(alive) == 1 or keep == 1 else seed + 1
        wanted = [(s, later) for later in range(seed, at_once) for s in alive if (s, later) not in figures]
        if wanted:
            return Standing(wanted, dropped, failed, None)
        failed += [s for s in alive if figures[s, seed] is None]
        alive = [s for s in alive if s not in failed]
        if not alive:
            break
        means = {s: statistics.mean(figures[s, k] or 0.0 for k in range(seed + 1)) for s in alive}
        ranked = sorted(alive, key=lambda s: sign * means[s])
        if seed == num_seeds - 1:
            return Standing([], dropped, failed, ranked[0])
        kept = {*ranked[: max(1, math.ceil(keep * len(ranked) - 1e-9))]}
        dropped += [s for s in alive if s not in kept]
        alive = [s for s in alive if s in kept]
    return Standing([], dropped, failed, None)
