"""The one command, `iolaus`: its subcommands, and the one way in which all of them fail.

A subcommand is a module that is imported when it is asked for, so that help and completion answer at once. Its `main`
takes what its `add_arguments` declares; that of training takes the words, which are Hydra's.
"""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from iolaus.old_names import DOORS

COMMANDS = {
    "train": ("pretrain or finetune; where no command is named, this one is meant", "iolaus.runner.train"),
    "plan": ("what a run would do, of the same words: trains nothing", "iolaus.runner.train"),
    "info": ("groups and options; the fields of those that are named", "iolaus.runner.cli.info"),
    "runs": ("the runs there are, one of them, or several compared", "iolaus.runner.cli.runs"),
    "report": ("runs as a page, Markdown or csv", "iolaus.runner.cli.report"),
    "audit": ("whether two runs trained on the same, step by step", "iolaus.runner.cli.audit"),
    "predict": ("what a model says of a text or a file", "iolaus.runner.cli.models.predict"),
    "push": ("an exported model to a folder or to the hub", "iolaus.runner.cli.models.push"),
    "consolidate": ("the model of any checkpoint as one folder", "iolaus.runner.cli.models.consolidate"),
    "prepare": ("an energon data set of images and text", "iolaus.runner.cli.prepare"),
    "schedule": ("the learning rate over the steps, drawn", "iolaus.runner.cli.schedule"),
    "schema": ("a JSON schema of recipes, for editors", "iolaus.runner.cli.schema"),
    "version": ("versions of this program and what it stands on", "iolaus.runner.cli.version"),
}
"""Each subcommand: a line about it, and the module that does it."""

TAKE_SETTINGS = ("train", "plan", "info", "schedule")
"""Commands whose words a shell completes by groups and settings; those of others are names of files."""

HYDRAS_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""What Hydra's own `--info` prints."""


def main(words: Sequence[str] | None = None) -> None:
    """Runs the command line, or the words given; a wrong one ends with one message and exit status 1."""
    try:
        _run(list(sys.argv[1:] if words is None else words))
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains as it ends
        sys.exit(1)
    except Exception as error:
        from iolaus.runner.run.errors import explain, wants_traceback

        message = explain(error)
        if message is None or wants_traceback():
            raise
        sys.exit(f"error: {message}")


def _run(words: list[str]) -> None:
    if {"-sc", "--shell-completion"} & set(words) and not _completes_settings():
        return
    name, rest = _meant(words)
    if words[:1] != [name] and {"-h", "--help"} & set(words):
        print("iolaus COMMAND ...; `iolaus COMMAND --help` says more\n")
        print(*(f"  {command:<12} {about}" for command, (about, _) in COMMANDS.items()), "", sep="\n")
    module = import_module(COMMANDS[name][1])
    if name in ("train", "plan"):
        module.main(rest if name == "train" else [*rest, "mode=inspect"])
    else:
        module.main(parser_of(name).parse_intermixed_args(rest))


def parser_of(name: str) -> ArgumentParser:
    """What reads the words behind a command; not of those whose words Hydra reads, `train` and `plan`."""
    module = import_module(COMMANDS[name][1])
    about = module.__doc__ or ""
    parser = _Parser(f"iolaus {name}", description=about, formatter_class=RawDescriptionHelpFormatter)
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    return parser


class _Parser(ArgumentParser):
    """Fails as everything else does: with one message."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; `{self.prog} --help` shows what there is")


def _meant(words: list[str]) -> tuple[str, list[str]]:
    """The command that the words name, and those behind it; settings and flags alone are those of `train`.

    Raises:
        ValueError: the first word is neither a command nor a setting.
    """
    first = words[0] if words else ""
    if first in COMMANDS and first != "train":
        return first, words[1:]
    if first and first != "train" and "=" not in first and not first.startswith(("-", "~")):
        from iolaus.conf.values import suggest

        known = ", ".join(COMMANDS)
        raise ValueError(
            f"there is no command {first!r}; expected GROUP=OPTION or FIELD=VALUE, or one of {known}"
            + suggest(first, COMMANDS)
        )
    words = words[1:] if first == "train" else words
    for flag in ("--version", "--schema"):
        if flag in words:
            return flag.removeprefix("--"), []
    if "--info" in words and words[words.index("--info") + 1 :][:1] not in [[own] for own in HYDRAS_INFO]:
        return "info", [word for word in words if word != "--info"]
    return "train", words


def _completes_settings() -> bool:
    """Whether Hydra completes what has been typed, which it then sees without the command; else prints the commands."""
    line = os.environ.get("COMP_LINE", "")
    typed = line.split()[1:]
    if not typed or (len(typed) == 1 and not line.endswith(" ")):
        print("\n".join(name for name in COMMANDS if name.startswith("".join(typed))))
    elif typed[0] in COMMANDS:
        os.environ["COMP_LINE"] = line.replace(f" {typed[0]}", "", 1)
        return typed[0] in TAKE_SETTINGS
    return True


if __name__ == "__main__":  # by a name of version 0.1: `python -m runner.predict`
    assert __spec__ is not None
    main([DOORS[__spec__.name], *sys.argv[1:]])
