"""Prints the versions of this program and of its main libraries."""

from argparse import Namespace
from importlib.metadata import version

LIBRARIES = ("torch", "lightning", "transformers", "hydra-core")


def main(_: Namespace) -> None:
    """Prints the versions in one line."""
    print(f"iolaus {version('iolaus')} ({', '.join(f'{name} {version(name)}' for name in LIBRARIES)})")
