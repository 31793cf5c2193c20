"""Collators by the names of their options."""

import iolaus.conf  # noqa: F401  registers the options
from iolaus.conf.registry import OPTIONS
from iolaus.conf.values import suggest
from iolaus.runner.config.targets import locate
from iolaus.runner.objectives.base import Collator


def get_collator_cls(objective: str) -> type[Collator]:
    """The collator class of an objective by its config name.

    Example:
        >>> get_collator_cls("mlm").__name__
        'MaskedLanguageModelingCollator'

    Raises ValueError for an unknown name, with the known ones.
    """
    options = OPTIONS["objective"]
    if objective not in options:
        raise ValueError(
            f"unknown objective {objective!r}; there are: {', '.join(options)}" + suggest(objective, options)
        )
    target = locate(options[objective]._target_, "objective")  # type: ignore[attr-defined]
    assert isinstance(target, type)
    return target
