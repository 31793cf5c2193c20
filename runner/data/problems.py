"""All problems of labelled files in one error, where one would hide the next."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiryns.runner.data.evaluated import by_name
from tiryns.runner.data.read.bad_rows import AdvisedError
from tiryns.runner.run.command.words import typed, typed_setting

if TYPE_CHECKING:
    from tiryns.runner.data.labelled.finetuning import FinetuningData


def all_problems(error: ValueError, data: "FinetuningData") -> ValueError:
    """The error that reading `data` ended with, and those that follow once the settings which cure it are assumed.

    Each error with `settings` (see `AdvisedError`) is cured by them, and the files are read again, until they can be used
    or an error has no cure. Of several problems the message ends in all settings to add.
    """
    paths = list(_named(data.sources))
    if data.decided_tables or not all(isinstance(path, str | Path) for path in paths):
        return error  # rows made in code may be read once
    is_one = len(paths) == 1 and Path(paths[0]).is_file()
    problems: list[str] = []
    cures: dict[str, Any] = {}
    failure: Exception | None = error
    while failure is not None and str(failure) not in problems:
        problems.append(str(failure))
        settings = getattr(failure, "settings", {})
        if "encoding" in settings and not is_one:  # other files may be UTF-8
            encoding = settings["encoding"]
            settings = {"encoding": ["utf-8", encoding] if isinstance(encoding, str) else encoding}
        if settings.keys() <= cures.keys():
            if [*cures] == ["on_bad_row"]:  # leaving rows out leaves none
                problems.pop()
            break
        cures |= settings
        trial, failure = _trial(data, cures)
        if failure is None and "on_bad_row" in settings:
            counts = "; ".join(filter(None, (bad.described() for bad in trial.bad.values())))
            problems[-1] += f" ({counts})"
    if failure is None:
        return _joined(problems, cures)
    return error if len(problems) == 1 else _joined(problems, {})  # the last one has no cure


def _trial(data: "FinetuningData", cures: Mapping[str, Any]) -> "tuple[FinetuningData, Exception | None]":
    """The data with further settings once it is read, and what that ended with."""
    trial = object.__new__(type(data))
    trial.set_up(replace(data.settings, **{n: v[0] if isinstance(v, tuple) else v for n, v in cures.items()}))
    trial.sources = data.sources
    try:
        with _silence():
            trial.read_examples()
    except (ValueError, OSError) as failure:
        return trial, failure
    return trial, None


def _joined(problems: list[str], cures: Mapping[str, Any]) -> ValueError:
    """The error with several problems, or a single one with more to say."""
    told, count, add = problems[0], len(problems), ""
    if count > 1:
        numbered = (f"({number}) {problem}" for number, problem in enumerate(problems, 1))
        told = f"{count} problems: {'; '.join(numbered)}"
    if cures and (count > 1 or isinstance(cures.get("encoding"), list)):
        chosen = {name: value for name, value in cures.items() if not isinstance(value, tuple)}
        add = ". Add: " + " ".join(typed_setting(name, value) for name, value in chosen.items())
        for name in cures.keys() - chosen.keys():
            add += f" data.{name}=COLUMN with one of {', '.join(map(typed, cures[name]))} for COLUMN"
    return AdvisedError(told + add, **cures)


def _named(sources: Mapping[str, Any]) -> Iterator[Any]:
    """The sources of every set; of rows made in code the rows."""
    for part, source in sources.items():
        for one in by_name(source, part).values():
            yield from one if isinstance(one, list | tuple) else [one]


@contextmanager
def _silence() -> Iterator[None]:
    """A context without messages of the program: a trial repeats those of the first reading."""
    log = logging.getLogger("tiryns")

    def none(_: logging.LogRecord) -> bool:
        return False

    log.addFilter(none)
    try:
        yield
    finally:
        log.removeFilter(none)
