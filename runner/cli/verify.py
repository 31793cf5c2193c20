"""`tiryns verify RUN`: tells whether a file of a finished run, or of an exported model, was changed.

It compares checkpoints, model, metrics, order and config with `manifest.json`, and also the weights or checkpoint that
the run began with. The exit status is 0 if nothing was changed, 4 if a file was changed or is missing (a line names it),
and 1 if nothing can be compared. Keys are PEM files of an elliptic curve.
"""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from tiryns.runner.manifest.verification import check_signature, sign, verify
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.command.status import DIFFERENT


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or its exported model")
    parser.add_argument("--alone", action="store_true", help="leaves out what the run began with")
    parser.add_argument("--key", type=Path, help="public key: the model must have its signature too")
    parser.add_argument("--sign", type=Path, metavar="KEY", help="signs the model if it is unchanged")


def main(arguments: Namespace) -> None:
    """Prints that the run is unchanged, or a line for each problem, and then ends with status 4."""
    folder = arguments.run
    problems = verify(folder, arguments.alone)
    if arguments.key and not problems:
        problems = check_signature(folder, arguments.key)
    signature = sign(folder, arguments.sign) if arguments.sign and not problems else None
    if arguments.json:
        print_json({"run": folder, "unchanged": not problems, "problems": problems, "signature": signature})
    elif problems:
        print(*problems, sep="\n", file=sys.stderr)
    else:
        print(*([f"signed: {signature}"] if signature else []), f"{folder} is as its manifest says", sep="\n")
    if problems:
        sys.exit(DIFFERENT)
