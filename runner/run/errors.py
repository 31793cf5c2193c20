"""Turns users' errors into one message, with close matches of a wrong name."""

import os
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException

from iolaus.conf.fields import fields_of, is_part, root_fields
from iolaus.conf.registry import OPTIONS
from iolaus.conf.values import close_matches
from iolaus.runner.run.redaction import redacted

USER_ERRORS = (ValueError, OSError, ImportError, KeyError)
"""Errors of a wrong config, file or environment; the traceback of any other goes to a file."""

OTHER_WORDS = {
    "accumulate_grad_batches": "data.micro_batch_tokens",
    "batch_size": "sampler.global_batch_size",
    "epochs": "trainer.max_epochs",
    "gpus": "trainer.devices",
    "gradient_clip_val": "module.max_grad_norm",
    "learning_rate": "optimizer.lr",
    "max_seq_length": "data.max_length",
    "num_gpus": "trainer.devices",
    "num_train_epochs": "trainer.max_epochs",
    "steps": "trainer.max_steps",
    "train_batch_size": "sampler.global_batch_size",
    "warmup": "scheduler.warmup_steps",
}
"""Names in other programs, with our settings."""

_IN_WORKER = re.compile(r"in DataLoader worker process.*\n[\w.]+: (.*)\Z", re.DOTALL)
"""An error of a loader process as torch raises it again: with that process's traceback before the message."""

_SAMPLES = re.compile(r" \(samples [^()]*, \.\.\.\)")
"""Samples in a message of a step."""

_MISSPELT = re.compile("no viable alternative|missing EQUAL|mismatched input|token recognition|extraneous")
"""Messages of Hydra's grammar for a word it cannot read."""

NO_FOLDS = re.compile("Could not override 'data.folds?'")
"""Start of the message where data cannot be cut into folds."""

NO_SCALE = re.compile(r"Could not (?:load|find) 'experiment/([^/']+)/([^']+)'")
"""Message for a recipe that a scale has no settings for."""

NO_KEY = re.compile(r"In '((?:\w+/)*experiment/[^']+)'.*\nKey '([^']+)' not in '(\w+)'")
"""Message for a recipe with a setting that the chosen option does not have."""

NO_LIST = re.compile(r"Error merging override (phases=.*)\nCannot merge DictConfig with ListConfig")
"""Message for phases that are no list."""

_NOISE = (
    "full_key:", "reference_type=", "object_type=", "provider=", "To append to your config", "Config search path",
    "See https://hydra.cc/docs/1.2/advanced/override_grammar",
)  # fmt: skip
"""Starts of lines of Hydra and OmegaConf that do not help the user."""


class TrainingFailure(RuntimeError):
    """Training cannot go on, for a reason the message gives (such as a loss that is not a number).

    Example:
        >>> raise TrainingFailure("the loss is not a number at step 3")
        Traceback (most recent call last):
        iolaus.runner.run.errors.TrainingFailure: the loss is not a number at step 3
    """


class Diverged(TrainingFailure):
    """The loss has diverged at a `step`; `since` is the first step that may have done it."""

    def __init__(self, message: str, step: int, since: int) -> None:
        super().__init__(message)
        self.step, self.since = step, since


class Rewound(Exception):
    """A run went back to a checkpoint before its loss diverged, and has to be trained on from there."""


def without_samples(message: str) -> str:
    """A message in one line, without the samples that it names: these are for the log of the run.

    Example:
        >>> without_samples("the loss is not a number at step 3 (samples epoch:index 0:7, 0:2, ...); no checkpoint")
        'the loss is not a number at step 3; no checkpoint'
    """
    return _SAMPLES.sub("", (message.splitlines() or [""])[0])


def explain(error: BaseException) -> str | None:
    """The message for the user, without secrets; None for a defect of the program, where only a traceback helps."""
    message = _explained(error)
    return None if message is None else redacted(message)


def _explained(error: BaseException) -> str | None:
    from hydra.errors import OverrideParseException

    chain = _causes(error)
    composing = [cause for cause in chain if _is_of_hydra(cause)]
    if not composing or any(isinstance(cause, InterpolationResolutionError) for cause in composing):
        for cause in chain:  # our own message, which a resolver may have wrapped
            if isinstance(cause, (*USER_ERRORS, TrainingFailure)) and cause not in composing:
                return _plain(cause)
            if type(cause).__name__ == "MisconfigurationException":  # Lightning's, which is not imported here
                return " ".join(str(cause).split())
    if composing:
        lines = dict.fromkeys(line for cause in composing for line in str(cause).splitlines() if _tells(line))
        message = "\n".join(lines)
        if NO_FOLDS.match(message):
            return "folds are for labelled data, such as data=classification: text and images are not cut into folds"
        if found := NO_SCALE.search(message):
            return (
                f"scale={found[1]}: experiment={found[2]} has no such size; `iolaus info scale` lists the recipes that "
                f"have, and a file experiment/{found[1]}/{found[2]}.yaml of your own gives it one"
            )
        if (found := NO_KEY.search(message)) and (
            foreign := _foreign_key(found[1], found[2], found[3], composing)
        ):
            return foreign
        if found := NO_LIST.search(message):
            return f"{found[1]}: expected a list such as phases=[{{name: stable, steps: 90}}, ...]"
        overrides = (cause.override for cause in composing if isinstance(cause, OverrideParseException))
        override = next(overrides, "")
        if override and override not in message:
            message = f"cannot read the override {override!r}: {message}"
        return message + _did_you_mean(message)
    return None


def unexpected(error: BaseException, file: Path) -> str:
    """The message for an error that `explain` does not know, whose traceback stands in a file: one line, no secrets."""
    lines = str(error).strip().splitlines() or [""]
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({Path(f.filename).name}, line {f.lineno})" for f in frames)
    return redacted(f"unexpected {type(error).__name__}: {lines[0][:500]}{where}; the traceback is in {file}")


def wants_traceback() -> bool:
    """Whether the user asked for full tracebacks (`HYDRA_FULL_ERROR=1`)."""
    asked = os.environ.get("IOLAUS_FULL_ERROR", os.environ.get("HYDRA_FULL_ERROR", "0"))
    return asked not in ("0", "", "false")


def _is_of_hydra(error: BaseException) -> bool:
    from hydra.errors import HydraException

    return isinstance(error, HydraException | OmegaConfBaseException)


@contextmanager
def explained() -> Iterator[None]:
    """Raises users' errors of the block with the message of `explain` alone, for programs of the user's own.

    Raises:
        TrainingFailure: training cannot go on.
        ValueError: for errors of Hydra and OmegaConf too; OSError and ImportError stay what they are.
    """
    try:
        yield
    except Exception as error:
        message, kinds = explain(error), (TrainingFailure, OSError, ImportError, ValueError)
        kind = next((k for k in kinds if isinstance(error, k) and not _is_of_hydra(error)), ValueError)
        if message is None or (message == str(error) and isinstance(error, kind)) or wants_traceback():
            raise
        raise kind(message) from None


def _causes(error: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


def _plain(error: BaseException) -> str:
    if found := _IN_WORKER.search(str(error)):
        return found[1]
    if isinstance(error, OSError) and error.strerror and len(error.args) > 1:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0]) if " " in str(error.args[0]) else _missing_key(error)
    return str(error)


def _missing_key(error: KeyError) -> str:
    """The message of a KeyError that holds a key alone, with the line that looked it up."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({Path(f.filename).name}, line {f.lineno}: {f.line})" for f in last)
    return (
        f"{error.args[0]!r} is missing from what is read here{where}; HYDRA_FULL_ERROR=1 shows the traceback"
    )


def _tells(line: str) -> bool:
    return bool(line.strip()) and "$VALUE" not in line and not line.strip().startswith(_NOISE)


def _did_you_mean(message: str) -> str:
    """A line with close matches of the name in a message of Hydra, or nothing."""
    if found := re.search(r"Could not find '([^']+)'", message):
        _, _, available = message.partition("Available options in")
        there = [line.strip() for line in available.splitlines()[1:]]
        return _line(close_matches(found[1].rpartition("/")[2], there))
    if found := re.search(r"Could not load '([^']+)/([^/']+)'", message):
        return _line(close_matches(found[2], [*OPTIONS.get(found[1], {}), "default"]))
    if found := re.search(r"Could not override '([^']+)'", message):
        return _other_key(found[1])
    if "Key 'experiment' not in 'Config'" in message:
        return "\na recipe begins with the line: # @package _global_"
    if found := re.search(r"Key '([^']+)' (?:is )?not in", message):
        return _line(close_matches(found[1], {key.split(".")[-1] for key in _config_keys()}))
    if found := re.search(r"Multiple values for (\S+)\. To .* use 'override \S+: (\S+)'", message):
        return f"\nwrite {found[1]}={found[2]}, without a +: there is such a group already"
    if _MISSPELT.search(message):
        return (
            "\nexpected GROUP=OPTION or FIELD=VALUE; in a shell, quote what has brackets or spaces: 'a.b=[1,2]', and "
            "signs that are a value once more: \"a.b=';'\""
        )
    return ""


def _foreign_key(recipe: str, name: str, kind: str, composing: list[BaseException]) -> str:
    """The message for a recipe's setting that another option of its group has; nothing where none has."""
    key = next((str(key) for cause in composing if (key := getattr(cause, "full_key", None))), name)
    group = key.partition(".")[0]
    chosen = [option for option, node in OPTIONS.get(group, {}).items() if node.__name__ == kind]
    if not chosen or not _config_keys().get(key):
        return ""
    recipe = recipe.removeprefix("experiment/")
    return (
        f"experiment={recipe} sets {key}, which {group}={chosen[0]} does not have: copy the file of the recipe to "
        f"configs/experiment/mine.yaml, write `override /{group}: {chosen[0]}` in its defaults and settings of that "
        f"option below {group}:, and run it by --config-dir configs experiment=mine"
    )


def _other_key(wrong: str) -> str:
    """A line on a key that the composed config does not have."""
    keys = _config_keys()
    if options := keys.get(wrong):
        group = wrong.partition(".")[0]
        whole = f"{group}=[..., {options[0]}]" if wrong.count(".") > 1 else f"{group}={' or '.join(options)}"
        return f"\n{wrong} is a setting of {whole}, which is not chosen here"
    section, _, field = wrong.rpartition(".")
    same = [key for key in keys if key.rpartition(".")[2] == field and not section]
    usual = [key for key in keys if key == OTHER_WORDS.get(field)]
    groups = [] if section else close_matches(field, [*OPTIONS, "experiment", "scale"])
    return _line(same or usual or groups or close_matches(wrong, keys))


def _line(names: list[str]) -> str:
    return f"\nDid you mean {' or '.join(map(repr, names[:3]))}?" if names else ""


def _config_keys() -> dict[str, list[str]]:
    """Every dotted key of any option of any group, with the options that have it."""
    keys: dict[str, list[str]] = {field.key: [] for field in root_fields()}
    for group, nodes in OPTIONS.items():
        for name, node in nodes.items():
            prefix = f"{group}.{name}" if is_part(group, name) else group
            for field in fields_of(node, prefix):
                keys.setdefault(field.key, []).append(name)
    return keys
