"""Turns users' errors into one message."""

import os
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException

from tiryns.runner.run.command.overrides import message_of
from tiryns.runner.run.redaction import redact

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn

USER_ERRORS = (ValueError, OSError, ImportError, KeyError)
"""Errors of a wrong config, file or environment; the traceback of any other goes to a file."""

_IN_WORKER = re.compile(r"in DataLoader worker process.*\n[\w.]+: (.*)\Z", re.DOTALL)
"""An error of a loader process as torch raises it again: with that process's traceback before the message."""

_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|Unable to allocate", re.IGNORECASE)
"""Messages of torch (GPU, CPU) and numpy about memory that could not be allocated."""

_SAMPLES = re.compile(r" \(samples [^()]*, \.\.\.\)")
"""The names of samples in a message about a step."""


class TrainingFailure(RuntimeError):
    """Training cannot go on, for a reason the message gives (such as a loss that is not a number).

    Example:
        >>> raise TrainingFailure("the loss is not a number at step 3")
        Traceback (most recent call last):
        tiryns.runner.run.errors.TrainingFailure: the loss is not a number at step 3
    """


class Diverged(TrainingFailure):
    """The loss has diverged at a `step`; `since` is the first step that may be the cause."""

    def __init__(self, message: str, step: int, since: int) -> None:
        super().__init__(message)
        self.step, self.since = step, since


class Rewound(Exception):
    """A run went back to a checkpoint before its loss diverged, and has to be trained on from there."""


def without_samples(message: str) -> str:
    """Returns a message in one line, without the names of samples, which only the run's log has.

    Example:
        >>> without_samples("the loss is not a number at step 3 (samples epoch:index 0:7, 0:2, ...); no checkpoint")
        'the loss is not a number at step 3; no checkpoint'
    """
    return _SAMPLES.sub("", (message.splitlines() or [""])[0])


def reason_of(error: Exception) -> str:
    """Returns the first line of an error's message, or the name of the error's type if the message is empty.

    Example:
        >>> reason_of(OSError("no such host\\nsee the log")), reason_of(KeyError())
        ('no such host', 'KeyError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def explain(error: BaseException) -> str | None:
    """Returns the message for the user, without secrets; None for a defect of the program, which needs a traceback."""
    message = _explanation(error)
    return None if message is None else redact(message)


def _explanation(error: BaseException) -> str | None:
    chain = causes(error)
    composing = [cause for cause in chain if is_of_hydra(cause)]
    if not composing or any(isinstance(cause, InterpolationResolutionError) for cause in composing):
        for cause in chain:  # our own message, which a resolver may have wrapped
            if isinstance(cause, (*USER_ERRORS, TrainingFailure)) and cause not in composing:
                if str(cause).startswith("Unable to configure handler"):  # logging's, which names no file
                    continue
                return _plain(cause)
            if type(cause).__name__ == "MisconfigurationException":  # Lightning's, which is not imported here
                return " ".join(str(cause).split())
            if isinstance(cause, MemoryError | RuntimeError) and (message := _out_of_memory(cause)):
                return message
    return message_of(composing) if composing else None


def _out_of_memory(error: Exception) -> str | None:
    """Returns the message for exhausted memory of the processor or a GPU; None for any other error."""
    text = str(error)
    if not isinstance(error, MemoryError) and not _OUT_OF_MEMORY.search(text):
        return None
    device, amount = "GPU" if "CUDA" in text else "machine", re.search(r"allocate ([\d.]+ \w+)", text)
    detail = f" (an allocation of {amount[1]} failed)" if amount else ""
    return (
        f"the memory of the {device} is full{detail}: set a smaller data.micro_batch_tokens, which changes no result "
        "(--tokens in predict), module.gradient_checkpointing=true, optimizer.quantized=true or fewer data.num_workers"
    )


def defect_message(error: BaseException, file: Path) -> str:
    """Returns the message for an error unknown to `explain`, with its traceback in a file; one line, no secrets."""
    lines = str(error).strip().splitlines() or [""]
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({Path(f.filename).name}, line {f.lineno})" for f in frames)
    return redact(f"unexpected {type(error).__name__}: {lines[0][:500]}{where}; the traceback is in {file}")


def wants_traceback() -> bool:
    """Whether the user asked for full tracebacks (`TIRYNS_FULL_ERROR=1`, or Hydra's own name)."""
    value = os.environ.get("TIRYNS_FULL_ERROR", os.environ.get("HYDRA_FULL_ERROR", "0"))
    return value not in ("0", "", "false")


def error_of(result: "JobReturn") -> BaseException:
    """Returns the error of a job that failed, without the text that Hydra prints when it raises this error."""
    with redirect_stderr(StringIO()):
        try:
            _ = result.return_value
        except BaseException as error:
            return error
    raise AssertionError("expected a job that failed")


def is_of_hydra(error: BaseException) -> bool:
    """Whether Hydra or OmegaConf raised an error."""
    from hydra.errors import HydraException

    return isinstance(error, HydraException | OmegaConfBaseException)


@contextmanager
def explain_errors() -> Iterator[None]:
    """Raises the block's user errors again with nothing but the message of `explain`, for users' Python programs.

    Raises:
        TrainingFailure: training cannot go on.
        ValueError: any other user error, also one of Hydra or OmegaConf; OSError and ImportError keep their types.
    """
    try:
        yield
    except Exception as error:
        message, kinds = explain(error), (TrainingFailure, OSError, ImportError, ValueError)
        kind = next((k for k in kinds if isinstance(error, k) and not is_of_hydra(error)), ValueError)
        if message is None or wants_traceback():
            raise
        user_error = error if message == str(error) and isinstance(error, kind) else kind(message)
        # what a notebook shows of an error: no frames, as they are none of the user's
        vars(user_error)["_render_traceback_"] = lambda: [f"{type(user_error).__name__}: {message}"]
        if user_error is error:
            raise
        raise user_error from None


def causes(error: BaseException | None) -> list[BaseException]:
    """Returns an error followed by its causes, the outermost first."""
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


def _plain(error: BaseException) -> str:
    if match := _IN_WORKER.search(str(error)):
        return match[1]
    if isinstance(error, OSError) and error.strerror and len(error.args) > 1:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, KeyError) and error.args:
        if " " in str(error.args[0]):
            return str(error.args[0])
        last = traceback.extract_tb(error.__traceback__)[-1:]  # a key alone, which this line has looked up
        where = "".join(f" ({Path(f.filename).name}, line {f.lineno}: {f.line})" for f in last)
        missing = f"{error.args[0]!r} is missing from what is read here{where}"
        return f"{missing}; TIRYNS_FULL_ERROR=1 shows the traceback"
    return str(error)
