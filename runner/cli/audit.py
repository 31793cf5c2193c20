"""Whether two runs trained on the same samples with the same masks, by what their `order.txt` says of every step.

`iolaus audit RUN RUN` ends with exit status 1 where they differ, and names the first such step.
"""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from iolaus.runner.run.audit import compare, length


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the words of the command."""
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN", help="run folders")


def main(arguments: Namespace) -> None:
    """Says in how many steps the runs are the same, or ends with the first in which they differ."""
    first, second = arguments.runs
    if difference := compare(first, second):
        sys.exit(f"the runs differ first at {difference}")
    print(f"the same samples and masks in all {min(length(first), length(second)):,} steps that both have")
