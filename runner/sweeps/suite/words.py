"""The command `iolaus suite=NAME model=A,B` as that of a sweep. Imports no torch."""

from collections.abc import Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser

from iolaus.runner.run.sweep_folder import literal

SWEEPER = "hydra/sweeper=suite"


def as_sweep(words: Sequence[str]) -> list[str]:
    """The words of a command, flags first; those of a suite as settings of its sweeper, `-m` among them.

    `suite=NAME` chooses the sweeper, `model=A,B` names its models, and `suite.X=...` are its other settings. The words of
    other commands stay as they are.

    Example:
        >>> as_sweep(["suite=small", "model=bert_tiny,outputs/run", "seed=1"])[:3]
        ['-m', 'hydra/sweeper=suite', "hydra.sweeper.suite='small'"]
        >>> as_sweep(["model=bert_tiny"])
        ['model=bert_tiny']
    """
    if not any(word == SWEEPER or word.startswith("suite=") for word in words):
        return list(words)
    other = [word for word in words if word.startswith("hydra/sweeper=") and word != SWEEPER]
    if other:
        raise ValueError(f"{other[0]}: a suite chooses among its grid's settings itself; leave it out")
    if "mode=inspect" in words:
        raise ValueError(
            "iolaus plan shows one run, not a suite; leave out suite= and name the overrides of a task"
        )
    flags = [word for word in words if word in ("-m", "--multirun")] or ["-m"]
    rest = [word for word in words if word not in (*flags, SWEEPER)]
    settings: dict[str, str] = {}
    kept = []
    for word in rest:
        name, _, value = word.partition("=")
        if name == "suite":
            settings["hydra.sweeper.suite"] = literal(value.strip("'\""))
        elif name.startswith(("suite.", "hydra.sweeper.")):
            settings[f"hydra.sweeper.{name.rpartition('.')[2]}"] = value
        elif name == "model":
            settings["hydra.sweeper.models"] = literal(values_of(word))
        else:
            kept.append(word)
    first = next((i for i, word in enumerate(kept) if "=" in word and not word.startswith("-")), len(kept))
    chosen = [SWEEPER, *(f"{name}={value}" for name, value in settings.items())]
    return [*flags[:1], *kept[:first], *chosen, *kept[first:]]


def values_of(word: str) -> list[str]:
    """The value of an override, or its values.

    Example:
        >>> values_of("model=outputs/2026-11-23/12-00-00-ab12,bert_tiny")
        ['outputs/2026-11-23/12-00-00-ab12', 'bert_tiny']
    """
    override = OverridesParser.create().parse_override(word)
    if override.is_sweep_override():
        return [value.strip("'\"") for value in override.sweep_string_iterator()]
    value = override.value()
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
