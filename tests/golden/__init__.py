"""Golden losses: 20 steps of seven recipes, in fp64 for every processor and in fp32 for each class of processors.

A file has a loss per step, and in its first line what rounding depends on: torch, the processor and its limits. Losses in
fp32 are those in fp64 to `ROUNDING`, and the same to the bit where the first line is that of this machine.

    python -m tests.golden

writes the files of this class, and those in fp64 where they have changed: a change of what training computes, for the
changelog.
"""

import json
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import train_as, train_here
from tests.modules.conftest import NEW, ROWS, TASKS, TINY
from tests.runs.test_train import losses
from tiryns.runner.run.environment import KERNEL_VARIABLES, machine
from tiryns.runner.run.folder import Run

ROUNDING = {"32-true": 1e-5, "bf16-mixed": 3e-3, "64-true": 1e-9}
"""Largest relative difference of a loss from its value in fp64, by precision."""

STEPS = 20
FIXED = [
    f"trainer.max_steps={STEPS}",
    "trainer.validate_every=0",
    "trainer.precision=32-true",
    "trainer.log_every=1",
]
PRETRAINING = ("mlm", "enhanced_mlm", "diffusion")
RECIPES = (*PRETRAINING, *TASKS)
"""The objectives that have golden losses."""

CALM = "optimizer.lr=0.001"
"""At a rate of .01 twenty steps of finetuning amplify rounding: 10,000 times in multiple choice."""


def class_of_processor() -> str:
    """The instructions that torch computes with here: `avx512`, `avx2`, `neon`, ..."""
    found = re.sub(r"\W+", "_", torch.backends.cpu.get_cpu_capability().lower())
    on_arm = platform.machine() in ("arm64", "aarch64")
    return "neon" if on_arm and found == "default" else found


def rounding(precision: str) -> float:
    """Returns the `ROUNDING` of a precision: without AVX, torch draws initial weights with another last bit of fp32."""
    other_weights = precision == "64-true" and not class_of_processor().startswith("avx")
    return 1e-7 if other_weights else ROUNDING[precision]


def made_by() -> str:
    """Returns what bits depend on: torch, the processor with its instructions and caches, and limits on kernels."""
    info, facts = Path("/proc/cpuinfo"), machine()
    numbers = re.findall(r"^(?:cpu family|model)\s*: (\d+)$", info.read_text(), re.M) if info.exists() else []
    cpu = str(facts["cpu"]).rpartition(" x ")[0] or platform.processor()
    limits = [f"{name}={facts[name]}" for name in KERNEL_VARIABLES if name in facts and "THREADS" not in name]
    cpu = f"{cpu} ({'.'.join(numbers[:2])}), caches {facts['caches']}, {' '.join(facts['features'])}"
    return ", ".join([f"# torch {torch.__version__}", cpu, *limits, "1 thread"])


def golden_file(recipe: str, precision: str = "32-true") -> Path:
    """Returns the file of a recipe: one for this class of processors in fp32, one for all in fp64."""
    folder = "fp64" if precision == "64-true" else class_of_processor()
    return Path(__file__).parent / folder / f"{recipe}.txt"


def read_golden(file: Path) -> tuple[str, list[float]]:
    """Returns what a file was made by and its losses; nothing of a class that has no files."""
    maker, *lines = file.read_text().splitlines() if file.exists() else [""]
    return maker, [float(line) for line in lines]


def golden_run(recipe: str, folder: Path, text_file: Path, *overrides: str) -> Run:
    """Trains a recipe on the tests' own data."""
    with in_fp64() if "trainer.precision=64-true" in overrides else nullcontext():
        if recipe in PRETRAINING:
            done: Run = train_here(folder / "run", text_file, f"objective={recipe}", *FIXED, *overrides)
            return done
        data = folder / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in ROWS[recipe](60, 0)))
        arguments = [*TASKS[recipe], f"data.train={data}", *TINY, *NEW, *FIXED, CALM, *overrides]
        done = train_as(folder / "run", arguments)
        return done


@contextmanager
def in_fp64() -> Iterator[None]:
    """Keeps fp64 where a model asks for `.float()`, so that nothing of a run in `64-true` is rounded to fp32."""
    to_fp32 = torch.Tensor.float

    def keep(tensor: torch.Tensor, **options: Any) -> torch.Tensor:
        return tensor if tensor.dtype == torch.float64 else to_fp32(tensor, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "float", keep)
        yield


def golden_losses(run: Run) -> list[float]:
    """The loss of each step, in full."""
    found = losses(run)
    return [found[step] for step in range(1, STEPS + 1)]
