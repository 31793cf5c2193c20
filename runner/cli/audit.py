"""Compares the samples and masks of two runs; if they differ, prints the first such step and exits with 4."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from tiryns.runner.run.audit import compare, length
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.command.status import DIFFERENT


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN", help="run folders")


def main(arguments: Namespace) -> None:
    """Prints the number of equal steps, or the first difference."""
    first, second = arguments.runs
    difference, steps = compare(first, second), min(length(first), length(second))
    if empty := next((run for run in arguments.runs if not length(run)), None):
        raise ValueError(f"{str(empty)!r} has recorded no step yet, so nothing can be compared")
    if arguments.json:
        answer = {"runs": [first, second], "same": difference is None, "steps": steps}
        print_json({**answer, "first_difference": difference and difference._asdict()})
    elif difference:
        first_hash, second_hash = difference.hashes
        where = f"step {difference.step}: {first} trained on {first_hash}, {second} on {second_hash}"
        print(f"the runs differ first at {where}", file=sys.stderr)
    else:
        print(f"the same samples and masks in all {steps:,} steps that both have")
    if difference:
        sys.exit(DIFFERENT)
