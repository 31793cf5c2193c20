"""The versions of this program and of the libraries that training stands on."""

from argparse import Namespace
from importlib.metadata import version

LIBRARIES = ("torch", "lightning", "transformers", "hydra-core")


def main(_: Namespace) -> None:
    """Prints them in a line."""
    print(f"iolaus {version('iolaus')} ({', '.join(f'{name} {version(name)}' for name in LIBRARIES)})")
