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
    found, steps = compare(first, second), min(length(first), length(second))
    if empty := next((run for run in arguments.runs if not length(run)), None):
        raise ValueError(f"{str(empty)!r} has recorded no step yet, so nothing can be compared")
    if arguments.json:
        told = {"runs": [first, second], "same": found is None, "steps": steps}
        print_json({**told, "first_difference": found and found._asdict()})
    elif found:
        ours, theirs = found.hashes
        where = f"step {found.step}: {first} trained on {ours}, {second} on {theirs}"
        print(f"the runs differ first at {where}", file=sys.stderr)
    else:
        print(f"the same samples and masks in all {steps:,} steps that both have")
    if found:
        sys.exit(DIFFERENT)
