"""Every option agrees with what it names, and is documented."""

import inspect
from collections.abc import Iterator
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields
from typing import Any

import hydra
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


def nodes() -> Iterator[tuple[str, str, Any]]:
    """Every dataclass with a target, with its group and name: the options, and those inside collections of nodes."""
    for group, options in OPTIONS.items():
        for name, node in options.items():
            if any(f.name == "_target_" for f in fields(node)):
                yield group, f"{group}={name}", node
            else:
                for f in fields(node):
                    inner = f.default_factory
                    assert inner is not NO_DEFAULT, f"{group}={name}: {f.name} is neither a target nor a node"
                    yield group, f"{group}={name}:{f.name}", inner


def parameters_of(node: Any) -> Any:
    return inspect.signature(hydra.utils.get_object(str(node._target_))).parameters


def test_option_fits_the_signature_it_names() -> None:
    for group, name, node in nodes():
        parameters = parameters_of(node)
        named = {n for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        own = {f.name for f in fields(node)} - {"_target_", "_convert_"}
        assert own <= named, f"{name} has no such parameter: {own - named}"
        required = {n for n in named if parameters[n].default is inspect.Parameter.empty}
        assert required <= own | GIVEN[group], f"{name}: nobody sets {required - own - GIVEN[group]}"


def test_constructor_repeats_no_default_of_its_option() -> None:
    for group, name, node in nodes():
        parameters = parameters_of(node) if group not in DOCUMENTED else {}
        taken = [parameters[f.name] for f in fields(node) if f.name in parameters]
        assert not [p for p in taken if p.default is not p.empty], name


def test_option_documents_every_field() -> None:
    for _, name, node in nodes():
        documented = field_docs(node).keys() | {"_target_", "_convert_"}
        assert not {f.name for f in fields(node)} - documented, name
        assert node.__doc__, name
        assert not node.__doc__.startswith(node.__name__ + "("), f"{name} has no docstring of its own"


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
