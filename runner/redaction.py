"""Secrets, and texts without them: what a run writes never holds a key, wherever the key came from. Imports no torch.

Secret are the values of environment variables and of settings whose names say so. They are looked for in everything that
is written to the run folder as text, in the log, and in messages.
"""

import logging
import os
import re
import sys
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

SECRET_WORDS = ("key", "token", "secret", "password", "credential", "credentials")
"""A setting or an environment variable whose name ends in one of these words holds a secret."""

SHORTEST = 6
"""Characters; shorter values are words like any other."""

HIDDEN = "***"

_ASSIGNED = re.compile(
    rf"[\w.]*(?:{'|'.join(SECRET_WORDS)})\s*[=:]\s*(?:'([^']*)'|\"([^\"]*)\"|([^\s,}}\]]+))", re.IGNORECASE
)


_of_configs: set[str] = set()


def know_secrets(node: Any) -> None:
    """Notes the values of a config's secret settings, wherever they come from, and keeps them out of the log."""
    if isinstance(node, DictConfig):
        for name in node:
            value = None if OmegaConf.is_missing(node, str(name)) or name == "hydra" else node[name]
            if isinstance(value, str) and is_secret(str(name)):
                _of_configs.add(value)
            know_secrets(value)
    elif isinstance(node, ListConfig):
        for value in node:
            know_secrets(value)


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return name.lower().split(".")[-1].endswith(SECRET_WORDS)


def redacted(text: str) -> str:
    """The text with every known secret replaced."""
    for secret in sorted(_known(), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


class Redaction(logging.Filter):
    """Keeps secrets out of what is logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every record through, without secrets."""
        message = record.getMessage()
        if (clean := redacted(message)) != message:
            record.msg, record.args = clean, None
        return True


def redact_logs() -> None:
    """Puts the filter on every handler of the root logger that has none yet."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(f, Redaction) for f in handler.filters):
            handler.addFilter(Redaction())


def _known() -> set[str]:
    """Values that are secret in this process; paths are not, though a name may say so."""
    values = [*_of_configs, *(value for name, value in os.environ.items() if is_secret(name))]
    for word in sys.argv[1:]:
        values += [next(filter(None, groups), "") for groups in _ASSIGNED.findall(word)]
    interpolated = (v for v in values if not v.startswith(("/", "$", "~")))
    return {value for value in interpolated if len(value) >= SHORTEST}
