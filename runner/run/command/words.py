"""The words of a command: which ones a run keeps, how Hydra reads values, and seals that prove what the user typed.

A seal stays valid when the folder of the run is copied.
"""

import contextlib
import hmac
import json
import os
import re
import secrets
import shlex
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from tiryns.runner.run.files import hold_lock, own_cache, replacing
from tiryns.runner.run.redaction import HIDDEN, is_secret, redact

_NAMES_A_PLACE = re.compile(r"""['"]?\$\{[^{}]*\}['"]?""")

_PLAIN = re.compile(r"[\w.-]+")
"""A value that needs no quotes."""

CONFIG_FLAGS = ("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn")
"""Hydra's flags for the folder and the name of a config."""

KEY_BYTES = 32
"""Length of the key of a user's seals."""

_is_trusted: Callable[[str], bool] | None = None


def command_line() -> str:
    """Returns the command as typed, quoted for a shell, without the values of secret settings."""
    words = [f"{word.partition('=')[0]}={HIDDEN}" if _holds_secret(word) else word for word in sys.argv[1:]]
    return f"tiryns {shlex.join(words)}".strip()


def flags(words: Sequence[str] | None = None) -> list[str]:
    """Returns the flags of a command (by default this one) that say where configs are, such as `--config-dir FOLDER`."""
    words = sys.argv[1:] if words is None else words
    long = [word for word in words if word.startswith(CONFIG_FLAGS) and "=" in word]
    pairs = [words[i : i + 2] for i, word in enumerate(words) if word in CONFIG_FLAGS]
    return [*long, *(word for pair in pairs for word in pair)]


def public_overrides(overrides: list[str]) -> list[str]:
    """Returns the overrides of the run itself, without `resume`, `hydra.*` and secrets."""
    prefixes = ("resume=", "hydra.", "hydra/")
    return [
        redact(word)
        for word in overrides
        if not (word.lstrip("+~").startswith(prefixes) or _holds_secret(word))
    ]


def typed_overrides(hydra: Any) -> list[str]:
    """Returns the overrides of a job as typed: `${...}` is kept, and resolved again when an override is used."""
    words: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)
    return list(map(str, words))


def as_typed(override: str) -> str:
    r"""Returns an override with interpolations and colons as typed; Hydra escapes them in a sweep's jobs.

    Colons stay escaped in dictionaries, where a colon ends the key, and in quotation marks, where a backslash is text.

    Example:
        >>> print(as_typed(r"data.without=source\:code"), as_typed(r"a={b:c\:d}"), as_typed(r"a='b\:c'"))
        data.without=source:code a={b:c\:d} a='b\:c'
    """
    plain = re.sub(r"\$\\\{.*?\\\}", lambda match: match[0].replace("\\", ""), override)
    return plain if re.search(r"[{'\"]", plain) else plain.replace(r"\:", ":")


def _holds_secret(word: str) -> bool:
    name, is_given, value = word.partition("=")
    return bool(is_given) and is_secret(name) and not _NAMES_A_PLACE.fullmatch(value)


def quote(value: str) -> str:
    """Quotes a value for Hydra's grammar: backslashes are doubled only before a quotation mark."""
    return "'" + re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), value) + "'"


def literal(value: object) -> str:
    """Returns a value in the grammar of Hydra's overrides.

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
    return quote(value) if isinstance(value, str) else str(value)


@contextlib.contextmanager
def trusting(is_trusted: Callable[[str], bool] | None) -> Iterator[None]:
    """Sets `is_trusted` for the block: a function that tells whether the user typed a word, or None without a command."""
    global _is_trusted
    before, _is_trusted = _is_trusted, is_trusted
    try:
        yield
    finally:
        _is_trusted = before


def seal_record(words: list[str], trusted_words: list[str] | None = None) -> dict[str, Any]:
    """Returns what a run or a sweep records of its words: the words that the user typed (`own`), and their `seal`.

    Without a command, as in jobs, `trusted_words` count as typed by the user; if they are None, all words count.
    """
    is_typed = _is_trusted or (lambda word: trusted_words is None or word in trusted_words)
    typed_words = [word for word in words if is_typed(word)]
    return {"own": typed_words, "seal": seal_of([typed_words, words])}


def sealed_words(record: dict[str, Any], words: list[str]) -> list[str] | None:
    """Returns the words that the user typed, from a folder's record; None if its seal is missing or wrong."""
    typed_words, seal = record.get("own", words), record.get("seal")  # an older seal is of all words
    valid_seal = seal_of([typed_words, words] if "own" in record else words)
    if valid_seal is None or not isinstance(seal, str) or not isinstance(typed_words, list):
        return None
    return typed_words if hmac.compare_digest(seal.encode(), valid_seal.encode()) else None


def seal_of(words: list[Any]) -> str | None:
    """Returns a code for words, made with a key in the user's cache; None if no key can be stored.

    Only this user can make the code. It proves that the user has begun a run, even in a copy of its folder.
    """
    try:
        key = _own_key(own_cache() / f"seal-{os.getuid()}.key")
    except (OSError, RuntimeError):  # no place can be written to, or there is no home
        return None
    return hmac.new(key, redact(json.dumps(words)).encode(), "sha256").hexdigest()


def _own_key(file: Path) -> bytes:
    """Returns the key in a file of this user; replaces a key that is missing, damaged or somebody else's by a new one."""
    if not (key := _key_in(file)):
        file.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(file.with_suffix(".lock")):
            if not (key := _key_in(file)):
                key = secrets.token_bytes(KEY_BYTES)
                with replacing(file) as temporary:
                    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                    with open(descriptor, "wb") as stream:
                        stream.write(key)
    return key


def _key_in(file: Path) -> bytes:
    """Returns the key in a file; empty where it is missing, damaged, or was put there by somebody else."""
    if not file.is_file() or file.lstat().st_uid != os.getuid() or file.is_symlink():
        return b""
    key = file.read_bytes()
    return key if len(key) == KEY_BYTES else b""


def quote_name(name: str) -> str:
    """Quotes a name for a shell unless it is an identifier. Quotes it for Hydra too if spaces begin or end it."""
    if name.isidentifier():
        return name
    inner, outer = ('"', "'") if "'" in name else ("'", '"')
    text = f"{inner}{name}{inner}"
    return text if name == name.strip() else f"{outer}{text}{outer}"


def typed_setting(name: str, value: object) -> str:
    """Returns a setting as typed on a command line; a name without a group is a setting of `data`.

    Example:
        >>> print(typed_setting("encoding", ["utf-8", "cp1252"]), typed_setting("objective.loss", "cosent"))
        'data.encoding=[utf-8,cp1252]' objective.loss=cosent
    """
    name = name if "." in name else f"data.{name}"
    if isinstance(value, list):
        return f"'{name}=[{','.join(value)}]'"
    text = str(value)
    return f"{name}={text if _PLAIN.fullmatch(text) else quote_name(text)}"


def numbers(kind: Callable[[str], float]) -> Callable[[str], list[float]]:
    """Returns a parser of comma-separated numbers of a kind, to be the type of a command's argument."""

    def read(text: str) -> list[float]:
        try:
            return [kind(word) for word in text.split(",")]
        except ValueError:
            raise ArgumentTypeError(f"expected numbers with commas between them, not {text!r}") from None

    return read
