"""Writes the golden losses of this machine's class of processors: `python -m tests.golden`."""

import contextlib
import io
import os
import tempfile
from pathlib import Path

import torch

from tests.conftest import write_text
from tests.golden import RECIPES, golden_file, golden_losses, golden_run, made_by


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TIRYNS_CACHE"] = f"{folder}/cache"
        text = write_text(Path(folder) / "herons.txt")
        for recipe in RECIPES:
            (Path(folder) / recipe).mkdir()
            with contextlib.redirect_stdout(io.StringIO()):
                found = golden_losses(golden_run(recipe, Path(folder) / recipe, text))
            file = golden_file(recipe)
            file.parent.mkdir(exist_ok=True)
            file.write_text("\n".join([made_by(), *map(repr, found)]) + "\n")
            print(f"{file}: {found[0]:.4f} to {found[-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
