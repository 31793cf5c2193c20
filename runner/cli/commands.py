"""The command `tiryns` with its subcommands, each a module that is imported only when it is used.

A subcommand's `main` takes the arguments of its `add_arguments`. The `main` of `train` takes words, for Hydra to parse.
"""

import os
import re
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import NoReturn

from tiryns.former import unread_variables
from tiryns.runner.run.command.failure import coded, failures_as_json
from tiryns.runner.run.command.json_output import add_json_argument, json_alone
from tiryns.runner.run.command.status import ERROR, INTERRUPTED

COMMANDS = {
    "train": ("pretrains or finetunes; the default command", "train"),
    "plan": ("shows what a run would do, and trains nothing", "train"),
    "info": ("lists groups and options, and the fields of those that are named", "cli.info"),
    "runs": ("lists runs, shows one, or compares several", "cli.runs"),
    "judge": ("tells whether a setting is better than another, by pairs of equal seeds", "cli.judge.command"),
    "ladder": ("finds the best rate of each width, and predicts that of the next one", "cli.ladder.command"),
    "report": ("makes a page, Markdown or csv of runs", "cli.report"),
    "audit": ("compares the samples and masks of two runs, step by step", "cli.audit"),
    "order": ("shows the samples of any step, finds a text, or compares two runs", "cli.order.command"),
    "verify": ("tells whether a finished run or its model was changed", "cli.verify"),
    "reproduce": ("builds a run again, and tells whether it came out the same", "cli.reproduce.command"),
    "predict": ("predicts with a model for a text or a file", "cli.models.predict"),
    "evaluate": ("measures a model on labelled files, or on text", "cli.models.evaluate"),
    "mine": ("finds hard negatives for pairs of texts", "cli.models.mine"),
    "push": ("copies an exported model to a folder or the hub", "cli.models.push"),
    "consolidate": ("exports the model of any checkpoint", "cli.models.consolidate"),
    "average": ("makes one model of several", "cli.models.average"),
    "prepare": ("makes an energon data set of images and text", "cli.prepare"),
    "prepare corpus": ("tokenises a large corpus with many tasks", "cli.prepare_corpus"),
    "schedule": ("draws the learning rate over the steps", "cli.schedule"),
    "new": ("makes a project of your own: configs, code and tests", "cli.new.command"),
    "doctor": ("tells what this machine can do, and what a run would choose here", "cli.doctor.command"),
    "schema": ("prints a JSON schema of recipes, for editors, or of commands", "cli.schema"),
    "mcp": ("serves the commands to software agents", "cli.agents.server"),
    "version": ("prints the versions of this program and its libraries", "cli.version"),
}
"""Each subcommand with its description and its module in `tiryns.runner`."""

HELP = """tiryns [train] GROUP=OPTION ... FIELD=VALUE ...    trains; `tiryns` alone is the default run
tiryns COMMAND ...    does something else; `tiryns COMMAND --help` says more

  tiryns                                          pretrains a small encoder on real text
  tiryns experiment=classification seed=1,2 -m    finetunes, in a sweep of two runs
  tiryns report outputs                           a page of all runs

{commands}

`tiryns info` lists all that can be set, `tiryns train --help` the flags of a training. `tiryns suite=NAME model=RUN`
measures models on many tasks. A failed command prints one line; TIRYNS_FULL_ERROR=1 adds the traceback."""

PLAN_HELP = """tiryns plan GROUP=OPTION ... FIELD=VALUE ... [--json]    shows what a run would do, and trains nothing

  tiryns plan experiment=classification     its samples, batches, parameter groups, schedule, memory and time
  tiryns plan optimizer=muon --json         the same for a program

It takes the words of `tiryns train`, whose --help lists groups and flags.

  --json    one JSON document on standard output, for programs; without -m"""

OWN_JSON = ("mcp", "report", "schema", "train")
"""Commands to which `--json` is not added, because they add it themselves or do not need it."""

MEANT = {
    "sweep": "tiryns -m FIELD=VALUE,VALUE",
    "compare": "tiryns runs compare RUN RUN",
    "suite": "tiryns suite=NAME model=RUN",
}
"""Suggested command lines for words that are no commands."""

VALUED = (
    "--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn", "--cfg", "-c", "--package", "-p",
)  # fmt: skip
"""Hydra's flags that take a value."""

HYDRAS_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""The values of Hydra's own flag `--info`."""


def main(words: Sequence[str] | None = None) -> None:
    """Runs `words`, by default the process's command line; on an error, prints one message and exits with status 1."""
    words = list(sys.argv[1:] if words is None else words)
    flags = words[: words.index("--")] if "--" in words else words
    as_json = any(len(word) > 2 and "--json".startswith(word) for word in flags)  # or an abbreviation
    with failures_as_json(words) if as_json else nullcontext():
        try:
            _run(words)
            sys.stdout.flush()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python fails to flush at exit
            sys.exit(ERROR)
        except Exception as error:
            from tiryns.runner.logging.log_file import message_of
            from tiryns.runner.run.errors import wants_traceback

            if wants_traceback():
                raise
            sys.exit(f"error: {message_of(error)}")


def _run(words: list[str]) -> None:
    if {"-sc", "--shell-completion"} & set(words) and _completes():
        return
    words = command_first(words)
    name, rest = command_of(words)
    if rest[:1] != ["--rank"] and (line := unread_variables(os.environ)):
        print(line, file=sys.stderr)
    if words in (["-h"], ["--help"]):
        lines = (f"  {name:<16} {about}" for name, (about, _) in COMMANDS.items())
        print(HELP.format(commands="\n".join(lines)))
        return
    if name == "plan" and {"-h", "--help"} & set(rest):
        print(PLAN_HELP)
        return
    module = import_module(f"tiryns.runner.{COMMANDS[name][1]}")
    if name == "train":
        module.main(rest)
        return
    args: Namespace | list[str]
    if name == "plan":
        wants_json, args = "--json" in rest, [*(word for word in rest if word != "--json"), "mode=inspect"]
        if wants_json and {"-m", "--multirun"} & set(rest):
            raise coded("bad_arguments", "tiryns plan --json prints the plan of one run: leave out -m")
    else:
        args = parser_of(name).parse_intermixed_args(rest)
        wants_json = getattr(args, "json", False)
    with json_alone() if wants_json else nullcontext():
        module.main(args)


def parser_of(name: str) -> ArgumentParser:
    """Returns the argument parser of a command other than `train` and `plan`."""
    module = import_module(f"tiryns.runner.{COMMANDS[name][1]}")
    about = module.__doc__ or ""
    form = RawDescriptionHelpFormatter
    parser = _Parser(f"tiryns {name}", description=about, formatter_class=form, allow_abbrev=False)
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    if name not in OWN_JSON:
        add_json_argument(parser)
    return parser


class _Parser(ArgumentParser):
    """Raises errors instead of exiting, so that they end with one message like all other errors."""

    def error(self, message: str) -> NoReturn:
        if re.search(r"^unrecognized arguments: .*(?<!\S)(--config-dir|-cd)\b", message):
            raise coded("bad_arguments", f"`{self.prog}` reads no folder of configs: leave out --config-dir")
        raise coded("bad_arguments", f"{message}; `{self.prog} --help` shows what there is")


def command_first(words: list[str]) -> list[str]:
    """Returns the words of a command line, with flags that precede the subcommand moved behind it.

    Raises ValueError for a subcommand that follows settings.

    Example:
        >>> command_first(["--config-dir", "conf", "plan", "experiment=mine"])
        ['plan', 'experiment=mine', '--config-dir', 'conf']
    """
    if words[:1] == ["--rank"] or {*words[:1]} & {*COMMANDS}:
        return words
    for i, word in enumerate(words[1:], 1):
        if word in COMMANDS and words[i - 1] not in VALUED:
            if any("=" in before and before[0] not in "-~" for before in words[:i]):
                hint = f"expected it before them: tiryns {word} {' '.join(words[:i])} ..."
                raise ValueError(f"the command {word!r} stands behind settings; {hint}")
            end = words.index("--", i) if "--" in words[i:] else len(words)
            return [*words[i:end], *words[:i], *words[end:]] if words[0].startswith("-") else words
    return words


def command_of(words: list[str]) -> tuple[str, list[str]]:
    """Returns the command (`train` if all words are settings) and its words; raises ValueError for an unknown command."""
    if words[1:] and (two := " ".join(words[:2])) in COMMANDS:
        return two, words[2:]
    first = words[0] if words else ""
    if first in COMMANDS:
        words = words[1:]
        if first != "train":
            return first, words
    elif first and "=" not in first and not first.startswith(("-", "~")):
        from tiryns.conf.values import suggest

        if words[1:2] == ["="]:
            raise ValueError(f"{' '.join(words[:3])}: expected no spaces around =: {''.join(words[:3])}")
        hint = f"expected GROUP=OPTION or FIELD=VALUE, or one of {', '.join(COMMANDS)}"
        meant = f". Did you mean `{MEANT[first]}`?" if first in MEANT else suggest(first, COMMANDS)
        raise coded("no_such_command", f"there is no command {first!r}; {hint}{meant}")
    for flag in ("--version", "--schema"):
        if flag in words:
            return flag.removeprefix("--"), []
    if "--info" in words and not {*words[words.index("--info") + 1 :][:1]} & {*HYDRAS_INFO}:
        return "info", [word for word in words if word != "--info"]
    return "train", words


def _completes() -> bool:
    """Prints completions, and returns True; if Hydra makes them, removes the command from the line and returns False."""
    from tiryns.runner.cli.completion import TAKE_SETTINGS, complete

    line = os.environ.get("COMP_LINE", "")
    completions = complete(line, COMMANDS, parser_of)
    if completions is not None:
        print(*completions, sep="\n", end="\n" if completions else "")
        return True
    if (words := line.split()[1:]) and words[0] in TAKE_SETTINGS:
        os.environ["COMP_LINE"] = line.replace(f" {words[0]}", "", 1)
    elif line and not words:
        print("\n".join(name for name in COMMANDS if " " not in name))
    elif not line:  # the installation, whose output a shell runs; `python -m tiryns` would register `python`
        sys.argv[0] = "tiryns"
    return False
