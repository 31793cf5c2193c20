"""Errors of a place elsewhere name the place, whatever library reaches it and whatever it raises."""

from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tiryns.runner.data.store.remote import Folder


class NoCredentialsError(Exception):
    """An error of a library that is no OSError."""


RAISED: dict[str, tuple[Exception, str]] = {
    "timeout": (TimeoutError("timed out"), "timed out"),
    "silent": (NoCredentialsError(), "NoCredentialsError"),
    "seeking": (ValueError("Cannot seek streaming HTTP file"), "Cannot seek streaming HTTP file"),
    "lines": (RuntimeError("denied\nby the server"), "denied"),
}
ASKED: dict[str, Any] = {
    "cat_file": lambda folder: folder.read("a"),
    "pipe_file": lambda folder: folder.write("a", b"b"),
}


@pytest.mark.parametrize("case", RAISED)
@pytest.mark.parametrize("operation", ASKED)
def test_error_names_the_place_and_the_cause(
    monkeypatch: pytest.MonkeyPatch, case: str, operation: str
) -> None:
    error, reason = RAISED[case]
    folder = Folder("memory://there")
    folder.write("kept", b"1")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(MemoryFileSystem, operation, fail)
    with pytest.raises((OSError, ValueError)) as told:
        ASKED[operation](folder)
    assert str(told.value) == f"cannot read or write memory://there: {reason}"


def test_missing_files_and_unknown_protocols_stay_what_they_are() -> None:
    with pytest.raises(FileNotFoundError):
        Folder("memory://nowhere").read("a")
    with pytest.raises(ValueError, match=r"nope://x: .*nope"):
        Folder("nope://x")
