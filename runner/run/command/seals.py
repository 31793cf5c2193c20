"""Seals of a run's words: they tell whether the user has typed them, wherever the folder of the run was copied to."""

import contextlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tiryns.runner.run.files import locked, own_cache, replacing
from tiryns.runner.run.redaction import redacted

KEY_BYTES = 32
"""Length of the key of a user's seals."""

_is_trusted: Callable[[str], bool] | None = None


@contextlib.contextmanager
def trusting(is_trusted: Callable[[str], bool] | None) -> Iterator[None]:
    """Within it, `is_trusted` tells which words of a command are the user's own; without a command all are."""
    global _is_trusted
    before, _is_trusted = _is_trusted, is_trusted
    try:
        yield
    finally:
        _is_trusted = before


def sealed(words: list[str], known: list[str] | None = None) -> dict[str, Any]:
    """Returns what the folder of a run or a sweep notes of its words: those that are the user's own, and their seal.

    Without a command, as in jobs, those are the user's own that are `known` as such; by default all are.
    """
    trusted = _is_trusted or (lambda word: known is None or word in known)
    own = [word for word in words if trusted(word)]
    return {"own": own, "seal": seal_of([own, words])}


def sealed_words(noted: dict[str, Any], words: list[str]) -> list[str] | None:
    """Returns the user's own among the words of a folder, by the seal that it notes; None without a valid seal."""
    own, seal = noted.get("own", words), noted.get("seal")  # an older seal is of all words
    expected = seal_of([own, words] if "own" in noted else words)
    if expected is None or not isinstance(seal, str) or not isinstance(own, list):
        return None
    return own if hmac.compare_digest(seal.encode(), expected.encode()) else None


def seal_of(words: list[Any]) -> str | None:
    """Returns a code for words that this user alone can make, by a key in the user's cache; None where none can be kept.

    So the folder of a run tells whether the user has begun it, wherever it was copied to.
    """
    try:
        key = _own_key(own_cache() / f"seal-{os.getuid()}.key")
    except (OSError, RuntimeError):  # no place can be written to, or there is no home
        return None
    return hmac.new(key, redacted(json.dumps(words)).encode(), "sha256").hexdigest()


def _own_key(file: Path) -> bytes:
    """The key in a file that this user has made; a whole new one where there is none, in the place of a damaged one."""
    if not (key := _key_in(file)):
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file.with_suffix(".lock")):
            if not (key := _key_in(file)):
                key = secrets.token_bytes(KEY_BYTES)
                with replacing(file) as temporary:
                    new = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                    with open(new, "wb") as opened:
                        opened.write(key)
    return key


def _key_in(file: Path) -> bytes:
    """The key in a file; empty where it is missing, damaged, or was put there by somebody else."""
    if not file.is_file() or file.lstat().st_uid != os.getuid() or file.is_symlink():
        return b""
    key = file.read_bytes()
    return key if len(key) == KEY_BYTES else b""
