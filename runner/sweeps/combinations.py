"""The jobs of a grid: every combination of the values that a command gives its settings."""

import re
from collections.abc import Sequence
from itertools import product

from hydra.core.override_parser.types import Override


def as_typed(override: str) -> str:
    """An override in which interpolations stand as they were typed; Hydra escapes those of a sweep's jobs."""
    return re.sub(r"\$\\\{.*?\\\}", lambda found: found[0].replace("\\", ""), override)


def combinations(overrides: Sequence[Override]) -> list[list[str]]:
    """The overrides of each job of a grid; of two overrides of one setting the later counts.

    Raises:
        ValueError: an interval, of which a grid has no values.
    """
    values: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if not override.is_sweep_override():
            values[key] = [override.get_value_element_as_str()]
        elif override.is_discrete_sweep():
            values[key] = list(override.sweep_string_iterator())
        else:
            raise ValueError(
                f"{override.input_line}: a grid needs single values, such as {key}=1,2; "
                "hydra/sweeper=optuna searches an interval"
            )
    words = [[as_typed(f"{key}={value}") for value in given] for key, given in values.items()]
    return [list(job) for job in product(*words)]
