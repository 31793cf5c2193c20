"""The base class of data modules with labelled examples, and all problems of their files in one error."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from tiryns.conf.data import labelled, vision
from tiryns.runner import log
from tiryns.runner.data.micro_batch import Share
from tiryns.runner.data.module import GlobalBatchDataModule
from tiryns.runner.data.read.bad_rows import AdvisedError
from tiryns.runner.run.command.words import quote_name, typed_setting

EVALUATED_AT_ONCE = 512
"""Samples of an evaluation that are sorted by length together; without gradients they fit into memory."""


class EvaluatedDataModule(GlobalBatchDataModule):
    """A data module with validation sets and `test` sets; a subclass makes all sets in `prepare_data`."""

    evaluation_batch_size = EVALUATED_AT_ONCE
    train_set: Any
    task_name: str
    description: str
    """The source of the training examples."""

    def __init__(self, settings: labelled.FinetuningData | vision.ImageText) -> None:
        super().__init__(settings)
        self.sources = {"train": settings.train, "validation": settings.validation, "test": settings.test}
        self.test: dict[str, Any] = {}
        self.prepared = False

    @abstractmethod
    def counts(self, sequences: Any) -> str:
        """Describes how many examples and tokens a set has."""

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Returns lines for the run's summary: labels or images, and the vocabulary."""

    def describe(self) -> dict[str, str]:
        tests = {f"test {name}": sequences for name, sequences in self.test.items()}
        sets: dict[str, Any] = {"training": self.train_set, **self.validation, **tests}
        size = self.sampler.global_batch_size
        tokens = size * self.train_set.num_tokens // len(self.train_set)
        return {
            "source": self.description,
            **{name: self.counts(sequences) for name, sequences in sets.items()},
            **self.facts(),
            "global batch": f"{size} samples, about {tokens:,} tokens",
            "micro-batch": f"{self.micro_batch_tokens or 'any number of'} tokens, {self.layout}",
        }

    @property
    def test_names(self) -> list[str]:
        """The test sets, in the order of their loaders."""
        return list(self.test)

    def test_dataloader(self) -> list[DataLoader[Share]]:
        """Returns one loader per test set, made like the validation loaders."""
        return self.evaluation_loaders(self.test)


def by_name(sources: object, name: str) -> dict[str, Any]:
    """Returns sets by name. A single set is called `name`; None gives no set."""
    if sources is None:
        return {}
    return dict(sources) if isinstance(sources, Mapping) else {name: sources}


def all_problems(error: ValueError, data: Any) -> ValueError:
    """Returns one error: `error`, which reading finetuning `data` raised, and the errors that appear once it is fixed.

    The `settings` that an error proposes (see `AdvisedError`) are applied and the files are read again, until reading
    succeeds or no settings are proposed. If settings fix all of several problems, the message ends with them.
    """
    sets = [one for part, source in data.sources.items() for one in by_name(source, part).values()]
    paths = [path for one in sets for path in (one if isinstance(one, list | tuple) else [one])]
    if data.decided_tables or not all(isinstance(path, str | Path) for path in paths):
        return error  # rows made in code may be read once
    is_one = len(paths) == 1 and Path(paths[0]).is_file()
    problems: list[str] = []
    cures: dict[str, object] = {}
    failure: Exception | None = error
    while failure is not None and str(failure) not in problems:
        problems.append(str(failure))
        settings = failure.settings if isinstance(failure, AdvisedError) else {}
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
            counts = "; ".join(filter(None, (bad.describe() for bad in trial.bad.values())))
            problems[-1] += f" ({counts})"
    if failure is None:
        return _joint_error(problems, cures)
    return error if len(problems) == 1 else _joint_error(problems, {})  # the last one has no cure


def _trial(data: Any, cures: Mapping[str, object]) -> tuple[Any, Exception | None]:
    """Reads the data with the settings `cures`; returns the new data module, and the error or None."""
    trial = object.__new__(type(data))
    trial.set_up(replace(data.settings, **{n: v[0] if isinstance(v, tuple) else v for n, v in cures.items()}))
    trial.sources = data.sources

    before, log.disabled = log.disabled, True  # it repeats the messages of the first reading
    try:
        trial.read_examples()
    except (ValueError, OSError) as failure:
        return trial, failure
    finally:
        log.disabled = before
    return trial, None


def _joint_error(problems: list[str], cures: Mapping[str, Any]) -> ValueError:
    """Returns one error that lists all problems, and the settings in `cures` to add."""
    message, count, add = problems[0], len(problems), ""
    if count > 1:
        phrases = (f"({number}) {problem}" for number, problem in enumerate(problems, 1))
        message = f"{count} problems: {'; '.join(phrases)}"
    if cures and (count > 1 or isinstance(cures.get("encoding"), list)):
        settings = {name: value for name, value in cures.items() if not isinstance(value, tuple)}
        add = ". Add: " + " ".join(typed_setting(name, value) for name, value in settings.items())
        for name in cures.keys() - settings.keys():
            add += f" data.{name}=COLUMN with one of {', '.join(map(quote_name, cures[name]))} for COLUMN"
    return AdvisedError(message + add, **cures)
