"""A failure as programs read it: a stable code, the message, and the command or the settings that cure it."""

import difflib
import json
import re
import shlex
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tiryns.runner.run.command.json_output import Answered
from tiryns.runner.run.command.status import ERROR, MEANINGS


class Code(NamedTuple):
    """The meaning of a code, and the command that helps if the message names none; `{command}` is the failed command."""

    about: str
    fix: str | None = None


CODES = {word: Code(meaning) for status, (word, meaning) in MEANINGS.items() if status} | {
    "no_such_command": Code("the command line names an unknown command", "tiryns --help"),
    "bad_arguments": Code(
        "an argument of the command is unknown, missing or wrong", "tiryns {command} --help"
    ),
    "bad_setting": Code("a setting or option is unknown, or has a wrong value", "tiryns info"),
    "bad_data": Code("the data cannot be read or used"),
    "bad_model": Code("the model or checkpoint cannot be read or used"),
    "no_such_run": Code("there is no such run, or several have the name", "tiryns runs"),
    "no_such_file": Code("there is no such file or folder"),
    "file_error": Code("a file cannot be read or written"),
    "closed_output": Code("the reader of the output has gone"),
    "not_installed": Code("a package is missing", "tiryns doctor"),
    "out_of_memory": Code("the memory of the machine or a GPU is full", "tiryns plan"),
    "diverged": Code("the loss of the run diverged"),
    "training_failed": Code("training cannot go on"),
    "refused": Code("the command cannot be done, for the reason in the message"),
    "unexpected": Code("a defect of the program; the message names the file with the traceback"),
}
"""The codes of failures. If a command fails with an exit status alone, the code is the word of the status."""

PACKAGES = {
    "tiryns.conf": "bad_setting", "tiryns.runner.config": "bad_setting", "tiryns.runner.build": "bad_setting",
    "tiryns.runner.optim": "bad_setting", "tiryns.runner.data": "bad_data",
    "tiryns.runner.models": "bad_model", "tiryns.runner.checkpoints": "bad_model",
    "tiryns.runner.inference": "bad_model",
}  # fmt: skip
"""The code of an error by the package that raised it, if the type of the error decides no code."""

_FIXES = (
    re.compile(r"\bAdd: (.+)$"),
    re.compile(r"`(tiryns \w+ [^`]+)`"),
    re.compile(r"(pip install '[^']+'|pip install \S+)"),
    re.compile(r"\b(?:go on with|for a run|for the runs in that folder|expected it before them): (.+)$"),
    re.compile(r"\b(?:set|add|give) ('[\w.]+=[^']+'|[\w./]+=[^\s;,)]+)"),
    re.compile(r"([\w.]+=\w+) leaves (?:such|out)"),
    re.compile(r"\bgive (--[\w-]+(?: [A-Z0-9][\w.]*)?)"),
    re.compile(r"\((--[\w-]+ [A-Z]+)\)"),
)
"""Patterns of the words in messages that tell the user what to type."""


class Failure(NamedTuple):
    """What `--json` prints of a failure: a key of `CODES`, the message, and the cure to type, if known."""

    code: str
    message: str
    fix: str | None


def coded(code: str, message: str, kind: type[Exception] = ValueError) -> Exception:
    """Returns an error with a code, a key of `CODES`.

    Example:
        >>> raise coded("no_such_run", "there is no run folder 'outputs/x'")
        Traceback (most recent call last):
        ValueError: there is no run folder 'outputs/x'
    """
    error = kind(message)
    vars(error)["failure_code"] = code
    return error


@contextmanager
def failures_as_json(words: Sequence[str]) -> Iterator[None]:
    """Prints a failure of the command `words` as the last line of standard error, after the line for people."""
    try:
        yield
    except Answered:
        raise
    except SystemExit as ended:
        if not ended.code:
            raise
        status = ended.code if isinstance(ended.code, int) else ERROR
        text = ended.code if isinstance(ended.code, str) else ""
        if text:
            print(text, file=sys.stderr)
        message = text.removeprefix("error: ") or MEANINGS.get(status, MEANINGS[ERROR])[1]
        _print(failure_of(ended, message, words))
        raise SystemExit(status) from None
    except Exception as error:  # the user asked for the traceback
        traceback.print_exc()
        _print(failure_of(error, str(error), words))
        raise SystemExit(ERROR) from None


def failure_of(error: BaseException, message: str, words: Sequence[str] = ()) -> Failure:
    """Returns the failure of the command `words`. `error` has ended the command; it may be a SystemExit with a cause."""
    from tiryns.runner.run.errors import causes
    from tiryns.runner.run.redaction import redact

    chain = [cause for cause in causes(error) if not isinstance(cause, SystemExit)]
    status = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else ERROR
    code = _code(chain, message) if chain and status == ERROR else MEANINGS.get(status, MEANINGS[ERROR])[0]
    fix = _fix(chain, code, message, list(words))
    return Failure(code, redact(message), fix and redact(fix))


def _print(failure: Failure) -> None:
    print(json.dumps(failure._asdict(), ensure_ascii=False), file=sys.stderr, flush=True)


def _code(chain: list[BaseException], message: str) -> str:
    """Returns the code of a chain of errors: of the first error whose class or package decides it."""
    from tiryns.runner.run.errors import Diverged, TrainingFailure, explain, is_of_hydra

    kinds = (
        (KeyboardInterrupt, "interrupted"), (Diverged, "diverged"), (TrainingFailure, "training_failed"),
        (BrokenPipeError, "closed_output"), (FileNotFoundError, "no_such_file"), (OSError, "file_error"),
        (ImportError, "not_installed"),
    )  # fmt: skip
    if explain(chain[0]) is None and not isinstance(chain[0], KeyboardInterrupt):
        return "unexpected"
    if message.startswith("the memory of the "):
        return "out_of_memory"
    for cause in (cause for cause in chain if not is_of_hydra(cause)):
        of_kind = next((code for kind, code in kinds if isinstance(cause, kind)), None)
        if failure_code := getattr(cause, "failure_code", of_kind):
            return str(failure_code)
        if isinstance(cause, ValueError | KeyError):
            names = [f.f_globals.get("__name__", "") for f, _ in traceback.walk_tb(cause.__traceback__)]
            module = next((f"{name}." for name in reversed(names) if name.startswith("tiryns.")), "")
            return next((code for name, code in PACKAGES.items() if module.startswith(f"{name}.")), "refused")
    return "bad_setting"


def _fix(chain: list[BaseException], code: str, message: str, words: list[str]) -> str | None:
    """Returns the cure to type: the settings of an error with advice, the advice of its message, or a helpful command."""
    from tiryns.runner.run.command.words import typed_setting

    for cause in chain:
        settings = getattr(cause, "settings", None) or {}
        if cures := [typed_setting(n, v) for n, v in settings.items() if not isinstance(v, tuple)]:
            return " ".join(cures)
    if (meant := re.search(r"Did you mean '([^']+)'", message)) and (
        correction := _retype(words, meant[1], message)
    ):
        return correction
    if match := next(filter(None, (pattern.search(message) for pattern in _FIXES)), None):
        return match[1].rstrip(" .")
    if code in ("interrupted", "preempted"):  # the same command goes on
        return shlex.join(["tiryns", *words])
    if code == "bad_setting" and (setting := re.search(r"\b([a-z_]+)\.[a-z_.]+", message)):
        return f"tiryns info {setting[1]}"
    advice = CODES[code].fix
    command = next((word for word in words if not word.startswith("-")), "")
    return advice and advice.format(command=command)


def _retype(words: list[str], meant: str, message: str) -> str | None:
    """Returns the command with the `meant` word in place of the most similar word that the message names."""
    pieces = [(i, part) for i, word in enumerate(words) for part in {word, *re.split("[=,]", word)}]
    positions = {part: i for i, part in pieces if part and part != meant and part in message}
    if not (close := difflib.get_close_matches(meant, positions, n=1, cutoff=0.5)):
        return None
    i = positions[close[0]]
    return shlex.join(["tiryns", *words[:i], words[i].replace(close[0], meant, 1), *words[i + 1 :]])
