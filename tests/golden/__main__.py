"""Writes the golden losses of this machine's class of processors: `python -m tests.golden`."""

import contextlib
import io
import itertools
import math
import os
import tempfile
from functools import partial
from pathlib import Path

import torch

from tests.conftest import write_text
from tests.golden import RECIPES, golden_file, golden_losses, golden_run, made_by, read_golden, rounding


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TIRYNS_CACHE"] = f"{folder}/cache"
        text = write_text(Path(folder) / "herons.txt")
        for recipe, precision in itertools.product(RECIPES, ("32-true", "64-true")):
            place, file = Path(folder) / f"{recipe}-{precision}", golden_file(recipe, precision)
            place.mkdir()
            with contextlib.redirect_stdout(io.StringIO()):
                losses = golden_losses(golden_run(recipe, place, text, f"trainer.precision={precision}"))
            if precision == "64-true" and are_close(losses, read_golden(file)[1]):
                continue
            file.parent.mkdir(exist_ok=True)
            file.write_text("\n".join([made_by(), *map(repr, losses)]) + "\n")
            print(f"{file}: {losses[0]:.4f} to {losses[-1]:.4f}", flush=True)


def are_close(losses: list[float], golden: list[float]) -> bool:
    """Whether losses in fp64 are golden ones but for rounding."""
    tolerance = rounding("64-true")
    return len(losses) == len(golden) and all(map(partial(math.isclose, rel_tol=tolerance), losses, golden))


if __name__ == "__main__":
    main()
