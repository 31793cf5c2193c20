"""A run has one length: steps, epochs or a budget."""

import re

import pytest

from tiryns.conf.trainer import BUDGETS, check_length


@pytest.mark.parametrize(
    "lengths",
    [
        {"max_steps": 9, "max_tokens": 5},
        {"max_steps": -1, "max_epochs": 2, "max_flops": 5},
        {"max_steps": -1, "max_tokens": 5, "max_flops": 5},
        {"max_steps": 0, "max_tokens": 5},
        {"max_steps": -1},
    ],
)
def test_a_run_has_one_length(lengths: dict[str, float]) -> None:
    given = " and ".join(f"trainer.{name}={value}" for name, value in lengths.items())
    with pytest.raises(ValueError, match=f"^{re.escape(given)}: give one length, [^\n]*null takes one away$"):
        check_length(**{"max_epochs": None, **lengths})  # type: ignore[arg-type]


def test_one_length_is_enough() -> None:
    check_length(9, None, max_tokens=None)
    check_length(9, 2)  # as in a recipe by epochs
    check_length(-1, 2, max_tokens=None)
    for name in BUDGETS:
        check_length(-1, None, **{name: 5.0})
