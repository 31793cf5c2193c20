"""Secrets, and texts without them: what a run writes never holds a key, wherever the key came from. Imports no torch.

Secret are the values of environment variables and of settings whose names say so, passwords in addresses, and whatever a
config has looked up in the environment. They are looked for in everything that is written to the run folder as text, in
the log, and in messages.
"""

import logging
import os
import re
import sys
from functools import cache
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.resolvers import oc

from iolaus.conf.registry import OPTIONS
from iolaus.conf.values import Choice, rules_of

SECRET_WORDS = ("key", "token", "secret", "password", "credential", "credentials")
"""A setting or an environment variable whose name ends in one of these words holds a secret."""

SHORTEST = 6
"""Characters; shorter values are words like any other."""

SHORTEST_NUMBER = 9
"""Digits; shorter numbers are steps and sizes."""

OUR_OWN = "IOLAUS_"
"""Variables whose names begin so are the program's own settings, and no secrets."""

HIDDEN = "***"

_ASSIGNED = re.compile(
    rf"[\w.]*(?:{'|'.join(SECRET_WORDS)})\s*[=:]\s*(?:'([^']*)'|\"([^\"]*)\"|([^\s,}}\]]+))", re.IGNORECASE
)


_IN_ADDRESS = re.compile(r"(?<=://)[^/\s:@'\"]*:[^/\s@'\"]+(?=@)")
"""Name and password in an address, such as `s3://name:password@bucket`."""

_of_configs: set[str] = set()

_of_environment: dict[str, str] = {}
"""Values that configs have looked up in the environment, with the names of their variables."""

_num_lookups = 0


def watch_environment() -> None:
    """Notes from here on what configs look up in the environment, by `${oc.env:NAME}`."""
    OmegaConf.register_new_resolver("oc.env", _look_up, replace=True)


def num_lookups() -> int:
    """How often configs have looked into the environment: it grows while a value is resolved that comes from there."""
    return _num_lookups


def _look_up(*arguments: Any) -> Any:
    global _num_lookups
    _num_lookups += 1
    value = oc.env(*arguments)
    name = str(arguments[0])
    if name in os.environ and not name.startswith(OUR_OWN):
        _of_environment[os.environ[name]] = name
    return value


def know_secrets(node: Any) -> None:
    """Notes the secrets of a config, wherever they come from, and keeps them out of files and the log."""
    watch_environment()
    _know_secrets(node)


def _know_secrets(node: Any) -> None:
    if isinstance(node, DictConfig):
        for name in node:
            value = None if OmegaConf.is_missing(node, str(name)) or name == "hydra" else node[name]
            if isinstance(value, str) and is_secret(str(name)):
                _of_configs.add(value)
            _know_secrets(value)
    elif isinstance(node, ListConfig):
        for value in node:
            _know_secrets(value)


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return name.lower().split(".")[-1].endswith(SECRET_WORDS)


def redacted(text: str) -> str:
    """The text with every known secret replaced; what came from the environment, by the name of its variable."""
    secrets = {value: f"${{oc.env:{name}}}" for value, name in _of_environment.items() if _is_telling(value)}
    secrets |= dict.fromkeys(_known(), HIDDEN)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, secrets[secret])
    return _IN_ADDRESS.sub(HIDDEN, text) if "://" in text else text


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


def _is_telling(value: str) -> bool:
    """Whether a value from the environment may be a secret: no word of ours, short number, or folder that is there."""
    if len(value) < SHORTEST or value in _common_words():
        return False
    if re.fullmatch(r"[\d._e+-]+", value):
        return len(value) >= SHORTEST_NUMBER
    return not os.path.isdir(os.path.expanduser(value))


@cache
def _common_words() -> frozenset[str]:
    """Names of groups, options and fields, and the words that settings may be."""
    words = set(OPTIONS).union(*OPTIONS.values())
    for option in [option for options in OPTIONS.values() for option in options.values()]:
        for name, rules in rules_of(option).items():
            allowed = rules.get("allowed")
            words |= {name, *(allowed.words if isinstance(allowed, Choice) else ())}
    return frozenset(words)


def _known() -> set[str]:
    """Values that are secret in this process; paths are not, though a name may say so."""
    values = [*_of_configs, *(value for name, value in os.environ.items() if is_secret(name))]
    for word in sys.argv[1:]:
        values += [next(filter(None, groups), "") for groups in _ASSIGNED.findall(word)]
    interpolated = (v for v in values if not v.startswith(("/", "$", "~")))
    return {value for value in interpolated if len(value) >= SHORTEST}
