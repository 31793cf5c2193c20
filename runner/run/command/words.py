"""The words of a command: which of them a run keeps, and values as Hydra's grammar reads them."""

import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from omegaconf import OmegaConf

from tiryns.runner.run.redaction import HIDDEN, is_secret, redacted

_NAMES_A_PLACE = re.compile(r"""['"]?\$\{[^{}]*\}['"]?""")

CONFIG_FLAGS = ("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn")
"""Hydra's flags for the place of configs."""


def command_line() -> str:
    """The command as typed, quoted for a shell, without the values of secret settings."""
    words = [f"{word.partition('=')[0]}={HIDDEN}" if _holds_secret(word) else word for word in sys.argv[1:]]
    return f"tiryns {shlex.join(words)}".strip()


def flags(words: Sequence[str] | None = None) -> list[str]:
    """The words of a command (this one by default) for the place of configs, such as `--config-dir FOLDER`."""
    words = sys.argv[1:] if words is None else words
    long = [word for word in words if word.startswith(CONFIG_FLAGS) and "=" in word]
    pairs = [words[i : i + 2] for i, word in enumerate(words) if word in CONFIG_FLAGS]
    return [*long, *(word for pair in pairs for word in pair)]


def public_overrides(overrides: list[str]) -> list[str]:
    """The overrides of the run itself, without `resume`, `hydra.*` and secrets."""
    kept = (word for word in overrides if not word.lstrip("+~").startswith(("resume=", "hydra.", "hydra/")))
    return [redacted(word) for word in kept if not _holds_secret(word)]


def typed_overrides(hydra: Any) -> list[str]:
    """The overrides of a job as typed: `${...}` stays, to be resolved again where they are used."""
    words: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)
    return [str(word) for word in words]


def _holds_secret(word: str) -> bool:
    name, is_given, value = word.partition("=")
    return bool(is_given) and is_secret(name) and not _NAMES_A_PLACE.fullmatch(value)


def quoted(value: str) -> str:
    """A value in quotation marks as Hydra's grammar reads it: backslashes are doubled before a quotation mark alone."""
    return "'" + re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value) + "'"


def literal(value: Any) -> str:
    """A value in the grammar of Hydra's overrides.

    Example:
        >>> literal({"lr": [0.1, None, True, "a b"]})
        "{lr:[0.1,null,true,'a b']}"
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{literal(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(literal, value))}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return quoted(value) if isinstance(value, str) else str(value)
