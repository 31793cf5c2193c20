"""Prints the versions of this program and of its main libraries."""

from argparse import Namespace
from importlib.metadata import version

from tiryns.runner.run.command.json_output import print_json

LIBRARIES = ("torch", "lightning", "transformers", "hydra-core")


def main(arguments: Namespace) -> None:
    """Prints the versions in one line."""
    program, *others = ((name, version(name)) for name in ("tiryns", *LIBRARIES))
    if arguments.json:
        print_json(dict([program, *others]))
    else:
        print(f"{' '.join(program)} ({', '.join(map(' '.join, others))})")
