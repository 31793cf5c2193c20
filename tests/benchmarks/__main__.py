"""Runs the benchmarks, all of them or those named: `python -m tests.benchmarks permute step`.

What each prints is kept in `measured/<name>.md` with the machine it came from, and stands in the documentation between
`<!-- measured: <name> -->` and `<!-- end -->` where that names it; a test holds the two against each other.
"""

import contextlib
import importlib
import io
import pkgutil
import platform
import sys

import torch
import transformers

import tests.benchmarks as package
from tests.benchmarks.measured import PAGES, fill, keep
from tiryns.runner.run.environment import environment


def main() -> None:
    modules = [module.name for module in pkgutil.walk_packages(package.__path__, "tests.benchmarks.")]
    places = {name.partition(".bench_")[2]: name for name in modules if ".bench_" in name}
    names = list(places)
    chosen = sys.argv[1:] or names
    if unknown := set(chosen) - set(names):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    print(f"{machine()}\n")
    for name in chosen:
        print(f"## {name}\n", flush=True)
        sys.argv[1:] = []
        with contextlib.redirect_stdout(Both()) as both:
            importlib.import_module(places[name]).main()
        keep(name, machine(), both.text.getvalue())
        print(flush=True)
    for page in PAGES:
        page.write_text(fill(page.read_text()))


def machine() -> str:
    """What the figures come from."""
    facts = environment()
    accelerator = f", {facts['gpus']}" if facts["gpus"] else ""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
    return f"{facts['cpu']}{accelerator}, {torch.get_num_threads()} threads, {versions}"


class Both(io.TextIOBase):
    """Prints and keeps."""

    def __init__(self) -> None:
        self.text, self._shown = io.StringIO(), sys.stdout

    def write(self, text: str) -> int:
        """To both."""
        self._shown.write(text)
        return self.text.write(text)

    def flush(self) -> None:
        """Shows what is there."""
        self._shown.flush()


if __name__ == "__main__":
    main()
