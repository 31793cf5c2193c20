"""Where the documented defaults and those of the command line differ on purpose, and that they do nowhere else."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import pytest

import tiryns.conf  # noqa: F401  registers the options
from tiryns.conf.registry import OPTIONS
from tiryns.runner.data.energon.module import EnergonMultiModalDataModule
from tiryns.runner.objectives import get_collator_cls
from tiryns.runner.optim import get_scheduler

COLLATORS = (
    "mlm", "enhanced_mlm", "diffusion", "classification", "token_classification", "question_answering",
)  # fmt: skip

CASES: list[Any] = [
    *(pytest.param(get_collator_cls(name), OPTIONS["objective"][name], {}, id=name) for name in COLLATORS),
    pytest.param(
        get_scheduler,
        OPTIONS["scheduler"]["wsd"],
        {"warmup_steps": (0, 0.05), "cooldown_kind": ("linear", "inverse_sqrt"), "cooldown_steps": (0, 0.2)},
        id="get_scheduler",
    ),
    pytest.param(
        EnergonMultiModalDataModule,
        OPTIONS["data"]["energon"],
        {"micro_batch_size": (1, 8), "global_batch_size": (1, "${sampler.global_batch_size}")},
        id="energon",
    ),
]


def shared_defaults(name: Callable[..., Any], option: type) -> dict[str, tuple[Any, Any]]:
    """What a documented signature and an option both have a default for."""
    parameters = inspect.signature(name).parameters
    ours = {field.name: field.default for field in fields(option) if field.default is not MISSING}
    return {n: (p.default, ours[n]) for n, p in parameters.items() if n in ours and p.default is not p.empty}


@pytest.mark.parametrize(("name", "option", "different"), CASES)
def test_defaults_differ_only_where_that_is_meant(
    name: Callable[..., Any], option: type, different: dict[str, tuple[Any, Any]]
) -> None:
    shared = shared_defaults(name, option)
    assert shared
    assert {n: pair for n, pair in shared.items() if pair[0] != pair[1]} == different


def test_lengths_are_called_differently() -> None:
    """A collator and an energon module have a length of their own where the command line has that of the data."""
    options: Any = OPTIONS["data"]
    parameters = inspect.signature(EnergonMultiModalDataModule).parameters
    assert (parameters["seq_length"].default, options["energon"].max_length) == (2048, 512)
    collator = inspect.signature(get_collator_cls("mlm")).parameters
    assert (collator["max_sequence_length"].default, options["files"].max_length) == (1024, 128)
