"""Hydra's own flags: Hydra 1.3 and 1.4 build their parser in `hydra._internal.utils`, and list the flags nowhere else."""

import argparse
import sys
from typing import Any

from hydra._internal.utils import get_args_parser

SHOWING = ("--cfg", "-c", "--info", "-i")
"""Flags with which a command prints the config, or what it is made of, and runs nothing."""


def only_shows() -> bool:
    """Tells whether this command prints a config and runs nothing."""
    return any(word.partition("=")[0] in SHOWING for word in sys.argv[1:])


def hydra_parser() -> argparse.ArgumentParser:
    """Returns the parser of Hydra's flags, of which one takes the overrides.

    Example:
        >>> hydra_parser().parse_args(["--multirun", "seed=1,2"]).overrides
        ['seed=1,2']
    """
    _accept_lazy_help()
    return get_args_parser()


def _accept_lazy_help() -> None:
    """Lets Hydra 1.3 start on Python 3.14, whose argparse checks each help text at once; one of Hydra's is an object."""
    check = getattr(argparse.ArgumentParser, "_check_help", None)
    if check is None or hasattr(check, "of_texts"):
        return

    def check_text(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
        if isinstance(action.help, str):
            check(parser, action)

    replaced: Any = check_text
    replaced.of_texts = True
    argparse.ArgumentParser._check_help = replaced  # type: ignore[attr-defined]
