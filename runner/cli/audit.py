"""Compares the samples and masks of two runs; ends with exit status 1 and the first step in which they differ."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from iolaus.runner.run.audit import compare, length


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN", help="run folders")


def main(arguments: Namespace) -> None:
    """Prints the number of equal steps, or ends with the first difference."""
    first, second = arguments.runs
    if difference := compare(first, second):
        sys.exit(f"the runs differ first at {difference}")
    print(f"the same samples and masks in all {min(length(first), length(second)):,} steps that both have")
