"""Every option agrees with what it names, and is documented."""

import inspect
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields
from typing import Any

import hydra
import pytest
from hydra.core.config_store import ConfigStore

from tiryns import conf
from tiryns.conf.config import DEFAULTS, Config
from tiryns.conf.fields import field_docs
from tiryns.conf.registry import OPTIONS

GIVEN = {
    "data": set(),
    "objective": {
        "pad_token_id", "mask_token_id", "vocab_size", "special_token_ids", "text_column", "label_column",
        "max_sequence_length", "tokenizer", "token_counts", "label_counts", "labels", "problem_type",
        "context_column", "doc_stride",
    },
    "sampler": {"dataset", "num_epochs", "num_batches"},
    "model": {"tokenizer"},
    "module": {
        "model", "optimizer", "scheduler", "max_steps", "seed", "log_every", "baselines", "make_predictions",
    },
    "optimizer": {"model"},
    "scheduler": {"optimizer", "max_steps"},
    "trainer": {"callbacks", "loggers", "folder", "resumed_step", "epochs"},
    "checkpoint": {"folder"},
    "callback": set(),
    "logger": {"folder"},
    "hydra/sweeper": set(),
    "hydra/launcher": set(),
}  # fmt: skip
"""What `runner/train.py` hands to each group's target at run time."""

DOCUMENTED = ("objective", "scheduler")
"""Groups whose targets are documented for plain Python, with defaults of their own."""


def nodes() -> list[Any]:
    """Every dataclass with a target: the options themselves, and those inside collections of nodes."""
    found = []
    for group, options in OPTIONS.items():
        for name, node in options.items():
            if any(f.name == "_target_" for f in fields(node)):
                found.append(pytest.param(group, node, id=f"{group}={name}"))
            else:
                for f in fields(node):
                    inner = f.default_factory
                    assert inner is not NO_DEFAULT, f"{group}={name}: {f.name} is neither a target nor a node"
                    found.append(pytest.param(group, inner, id=f"{group}={name}:{f.name}"))
    return found


@pytest.mark.parametrize(("group", "node"), nodes())
def test_option_fits_the_signature_it_names(group: str, node: type) -> None:
    by_name = {f.name: f for f in fields(node)}
    target = hydra.utils.get_object(str(by_name["_target_"].default))
    parameters = inspect.signature(target).parameters
    named = {n for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    own = set(by_name) - {"_target_", "_convert_"}
    assert own <= named, f"no such parameter: {own - named}"
    required = {n for n in named if parameters[n].default is inspect.Parameter.empty}
    assert required <= own | GIVEN[group], f"nobody sets: {required - own - GIVEN[group]}"


@pytest.mark.parametrize(("group", "node"), [case for case in nodes() if case.values[0] not in DOCUMENTED])
def test_constructor_repeats_no_default_of_its_option(group: str, node: type) -> None:
    parameters = inspect.signature(hydra.utils.get_object(str(node._target_))).parameters  # type: ignore[attr-defined]
    repeated = {f.name for f in fields(node) if f.name in parameters} - {
        name for name, parameter in parameters.items() if parameter.default is parameter.empty
    }
    assert not repeated


@pytest.mark.parametrize(("group", "node"), nodes())
def test_option_documents_every_field(group: str, node: type) -> None:
    undocumented = {f.name for f in fields(node)} - field_docs(node).keys() - {"_target_", "_convert_"}
    assert not undocumented
    assert node.__doc__
    assert not node.__doc__.startswith(node.__name__ + "("), "the dataclass has no docstring of its own"


def test_root_documents_every_field() -> None:
    assert {f.name for f in fields(Config)} == field_docs(Config).keys()


def test_every_group_has_the_default_it_names() -> None:
    chosen = {name: option for entry in DEFAULTS if isinstance(entry, dict) for name, option in entry.items()}
    chosen = {name.removeprefix("override "): option for name, option in chosen.items()}
    del chosen["experiment"], chosen["scale"]  # which are null
    for group, option in chosen.items():
        assert ConfigStore.instance().load(f"{group}/{option}.yaml"), f"{group}={option}"
    assert set(chosen) | {"hydra/launcher"} == set(OPTIONS), "Hydra's own launcher is the default"
    assert conf.__all__ == sorted(conf.__all__)
