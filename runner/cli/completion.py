"""Completes a shell's last word by commands, flags, values or files, where Hydra has no completions."""

import os
from argparse import Action, ArgumentParser
from collections.abc import Callable, Iterable, Mapping, Sequence
from glob import escape, glob

from tiryns.runner.patches.parsers import actions_of

TAKE_SETTINGS = ("train", "plan", "info", "schedule")
"""Commands whose words are groups and settings."""


def complete(
    line: str, commands: Mapping[str, object], parser: Callable[[str], ArgumentParser]
) -> list[str] | None:
    """Returns the completions of a line's last word; None if Hydra has to complete it.

    The names in `commands` have one word or two. `parser` makes the parser of a command. Files after a command are
    left to the shell, which offers them if nothing else fits.

    Example:
        >>> complete("tiryns ru", {"runs": "", "train": ""}, lambda name: ArgumentParser())
        ['runs']
        >>> complete("tiryns plan mode=in", {"plan": ""}, lambda name: ArgumentParser())
        ['mode=inspect']
    """
    words = line.split()[1:]
    word = "" if not words or line.endswith(" ") else words.pop()
    if not words and word and (names := _starting(word, (name for name in commands if " " not in name))):
        return names
    if not words or words[0] not in commands or words[0] in TAKE_SETTINGS:
        return _hydras(word, words)
    name = next((two for two in commands if two.split() == words[:2]), words[0])
    second = _starting(word, (two.split()[1] for two in commands if two.split()[:-1] == words))
    return second or _arguments(word, words[name.count(" ") + 1 :], actions_of(parser(name)))


def _hydras(word: str, words: list[str]) -> list[str] | None:
    """Returns Hydra's flags or a setting's values; `[]` after a flag that takes a value, where the shell offers files."""
    if word.startswith("-") or (words[-1:] and words[-1].startswith("-")):
        from tiryns.runner.patches.hydra.start import hydra_parser

        flags = [(flag, action) for action in actions_of(hydra_parser()) for flag in action.option_strings]
        if word.startswith("-"):
            return _starting(word, (flag for flag, _ in flags))
        if any(flag == words[-1] and action.nargs is None for flag, action in flags):
            return []
    return _values(word)


def _arguments(word: str, words: list[str], actions: Sequence[Action]) -> list[str]:
    """Returns what completes `word`: flags, values of the flag before it, or the command's actions or runs, if any."""
    flags = {flag: action for action in actions for flag in action.option_strings}
    if word.startswith("-"):
        return _starting(word, flags)
    if words and (flag := flags.get(words[-1])) is not None and flag.nargs != 0:
        return _starting(word, map(str, flag.choices or ()))
    choices: list[str] = []
    for action in actions:
        if not action.option_strings and action.choices and not {*words} & {*action.choices}:
            choices += map(str, action.choices)
            break
        if not action.option_strings and action.metavar == "RUN":
            choices += _runs()
    return _starting(word, choices)


def _values(word: str) -> list[str] | None:
    """Returns completions of SETTING=VALUE, by allowed values or files; None if the word or setting has none."""
    if "=" not in word:
        return None
    import tiryns.conf  # noqa: F401  registers the options
    from tiryns.conf.fields import fields_of, root_fields
    from tiryns.conf.registry import OPTIONS
    from tiryns.conf.values import Choice, Named

    key, _, value = word.partition("=")
    name = key.lstrip("+")
    prefix = name.rpartition(".")[0]
    options = OPTIONS.get(name.partition(".")[0], {}).values()
    every = [field for option in options for field in fields_of(option, prefix)] if prefix else root_fields()
    fields = [field for field in every if field.key == name]  # in any option of the group
    rules = {type(field.allowed): field.allowed for field in fields}
    values = None
    if key == "resume":
        values = ["auto", *_files(value)] if value else ["auto", *_runs()]
    elif isinstance(choice := rules.get(Choice), Choice):
        values = [*choice.words]
    elif Named in rules:
        values = _files(value)
    elif any(field.type is bool for field in fields):
        values = ["true", "false"]
    return None if values is None else [f"{key}={one}" for one in _starting(value, values)]


def _files(start: str) -> list[str]:
    """Returns files and folders whose paths begin with `start`; folders end with a slash."""
    return [f"{path}/" if os.path.isdir(path) else path for path in sorted(glob(f"{escape(start)}*"))]


def _runs() -> list[str]:
    """Returns the folders of the newest 20 runs."""
    files = glob("outputs/*/*/status.json")
    return [os.path.dirname(path) for path in sorted(files, key=os.path.getmtime, reverse=True)[:20]]


def _starting(start: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(start)]
