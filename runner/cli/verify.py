"""`iolaus verify RUN`: tells whether anything in a finished run, or in an exported model, was changed since.

It compares checkpoints, model, metrics, order and config with `manifest.json`, and the weights that the run began with,
as far as other runs have made them. The exit status is 0 where all is as it was, 1 where something was changed or is
missing, which is named, and 2 where nothing can be compared. Keys are PEM files of an elliptic curve.
"""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from iolaus.runner.manifest.signing import check_signature, sign
from iolaus.runner.manifest.verification import verify


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or its exported model")
    parser.add_argument("--alone", action="store_true", help="leaves out what the run began with")
    parser.add_argument("--key", type=Path, help="public key: the model must have its signature too")
    parser.add_argument(
        "--sign", type=Path, metavar="KEY", help="signs the model with a private key, if all is well"
    )


def main(arguments: Namespace) -> None:
    """Prints that all is well, or ends with a line for each thing that is not."""
    folder = arguments.run
    try:
        problems = verify(folder, arguments.alone)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if arguments.key and not problems:
        problems = check_signature(folder, arguments.key)
    if problems:
        sys.exit("\n".join(problems))
    if arguments.sign:
        print(f"signed: {sign(folder, arguments.sign)}")
    print(f"{folder} is as its manifest says")
