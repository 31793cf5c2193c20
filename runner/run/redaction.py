"""Keeps secrets out of the text that a run writes: its files, its log, its messages. Imports no torch.

Secrets are values of environment variables and settings with telling names, passwords in addresses, and values that a
config has looked up in the environment.
"""

import logging
import os
import re
import sys
from functools import cache, lru_cache
from itertools import chain
from typing import Any

from omegaconf import DictConfig, Node, OmegaConf
from omegaconf.resolvers import oc

from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import Choice, rules_of
from tiryns.runner.patches.hydra.start import register_resolver
from tiryns.runner.patches.omegaconf import parts, used_parts, used_value

SECRET = r"(?:(?:\b|[\d_]|api|access|auth|private|secret)key|Key|KEY|(?i:token|secret|password|credentials?))"
"""End of the name of a setting or an environment variable that holds a secret: `api_key` or `apiKey`, not `turkey`."""

SHORTEST = 6
"""The fewest characters of a secret; shorter values are ordinary words."""

SHORTEST_NUMBER = 9
"""The fewest digits of a secret number; shorter numbers are steps and sizes."""

OUR_OWN = "TIRYNS_"
"""Start of the names of the program's own variables, which hold no secrets."""

PUBLIC = ("USER", "LOGNAME", "HOSTNAME")
"""Variables that anyone on the machine may know."""

HIDDEN = "***"

_ASSIGNED = re.compile(rf"{SECRET}\s*[=:]\s*(?:'([^']*)'|\"([^\"]*)\"|([^\s,}}\]]+))")
"""A secret setting with its value, anywhere in a word of the command line."""

_IN_ADDRESS = re.compile(r"(?<=://)[^/\s:@'\"]*:[^/\s@'\"]+(?=@)")
"""Name and password in an address, such as `s3://name:password@bucket`."""

_of_configs: set[str] = set()

_of_environment: dict[str, str] = {}
"""Values that configs have looked up in the environment, with the names of their variables."""

lookup_names: list[str] = []
"""The names of the environment variables that configs have looked up, once for each look-up."""


def watch_environment() -> None:
    """Records from now on which values configs look up in the environment, by `${oc.env:NAME}`."""
    register_resolver("oc.env", _look_up)


def _look_up(*arguments: Any) -> Any:
    lookup_names.append(name := str(arguments[0]))
    value = oc.env(*arguments)
    if name in os.environ and not name.startswith(OUR_OWN):
        _of_environment[os.environ[name]] = name
    return value


def know_secrets(config: Node) -> None:
    """Records the secrets of a config, to keep them out of files and the log."""
    watch_environment()
    for _, name, value in used_parts(config):
        if isinstance(value, str):
            _of_configs.update([value] if is_secret(str(name)) else _passwords(value))


def resolve_public(config: Node) -> None:
    """Resolves a config in place; environment lookups stay lookups, secret settings become `***`."""
    watch_environment()
    for node, name, raw_value in parts(config):
        num_lookups, value = len(lookup_names), used_value(node, name, raw_value)
        if len(lookup_names) > num_lookups:  # the name of the variable stays, not its value
            continue
        if OmegaConf.is_config(value) and value is not raw_value:
            resolve_public(value)
        elif isinstance(name, str) and is_secret(name) and isinstance(value, str):
            node[name] = HIDDEN
        elif value is not raw_value and OmegaConf.is_interpolation(node, name):
            node[name] = value


def _passwords(text: str) -> list[str]:
    """Returns each password in the addresses of a text, with its name and alone, as a library may quote either."""
    passwords = _IN_ADDRESS.findall(text) if "://" in text else []
    return [*passwords, *(both.partition(":")[2] for both in passwords)]


def is_public(name: str) -> bool:
    """Whether an environment variable holds no secret: it is unset, a path, a number, or a word of a config.

    Example:
        >>> is_public("USER"), is_public("AWS_SECRET_ACCESS_KEY")
        (True, False)
    """
    value = os.environ.get(name, "")
    tells = _is_telling(value) and not os.path.exists(os.path.expanduser(value))
    return name.startswith(OUR_OWN) or name in PUBLIC or not (tells or is_secret(name))


@lru_cache(4096)
def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return re.search(f"{SECRET}$", name) is not None


def redact(text: str) -> str:
    """Returns the text with `***` for each known secret, and `${oc.env:NAME}` for a value from the environment."""
    secrets = {value: f"${{oc.env:{name}}}" for value, name in _of_environment.items() if _is_telling(value)}
    values = [*_of_configs, *(os.environ.get(name, "") for name in os.environ if is_secret(name))]
    for word in sys.argv[1:]:
        values += ["".join(groups) for groups in _ASSIGNED.findall(word)] + _passwords(word)
    paths = ("/", "$", "~")  # which are no secrets
    secret_values = (value for value in values if len(value) >= SHORTEST and not value.startswith(paths))
    secrets |= dict.fromkeys(secret_values, HIDDEN)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, secrets[secret])
    return _IN_ADDRESS.sub(HIDDEN, text) if "://" in text else text


class Redaction(logging.Filter):
    """Keeps secrets out of what is logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every record through, without secrets."""
        message = record.getMessage()
        if (clean := redact(message)) != message:
            record.msg, record.args = clean, None
        if record.exc_info and not record.exc_text:  # Hydra 1.4 logs the traceback of a failed job
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        return True


def redact_logs() -> None:
    """Adds the filter to each handler of the root logger that lacks the filter."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(f, Redaction) for f in handler.filters):
            handler.addFilter(Redaction())


def _is_telling(value: str) -> bool:
    """Whether a value from the environment may be a secret: not a word of a config, a short number or a folder."""
    if len(value) < SHORTEST or value in _common_words():
        return False
    if re.fullmatch(r"[\d._e+-]+", value):
        return len(value) >= SHORTEST_NUMBER
    return not os.path.isdir(os.path.expanduser(value))


@cache
def _common_words() -> frozenset[str]:
    """Returns the names of groups, options and fields, and the words that settings accept."""
    words = set(OPTIONS).union(*OPTIONS.values())
    for option in chain.from_iterable(options.values() for options in OPTIONS.values()):
        for name, rules in rules_of(option).items():
            rule = rules.get("allowed")
            words |= {name, *(rule.words if isinstance(rule, Choice) else ())}
    return frozenset(words)


def editable(config: DictConfig) -> DictConfig:
    """Returns a writable copy of a job's config without the node `hydra`."""
    copy = config.copy()
    OmegaConf.set_readonly(copy, False)
    OmegaConf.set_struct(copy, False)
    copy.pop("hydra", None)
    return copy


def without_secrets(config: DictConfig) -> DictConfig:
    """Returns a resolved copy in which environment lookups stay lookups and secret settings are `***`."""
    resolve_public(copy := editable(config))
    return copy
