"""The arguments of a parser: argparse (Python 3.11 to 3.14) keeps them in `_actions`, and lists them nowhere else."""

from argparse import Action, ArgumentParser
from collections.abc import Sequence


def actions_of(parser: ArgumentParser) -> Sequence[Action]:
    """Returns the flags and arguments of a parser, in their order.

    Example:
        >>> parser = ArgumentParser(add_help=False)
        >>> _ = parser.add_argument("--json", action="store_true")
        >>> [action.dest for action in actions_of(parser)]
        ['json']
    """
    return parser._actions
