"""Golden losses: 20 steps of six recipes in fp32, a folder of files for each class of processors.

A file has a loss per step, and in its first line what else rounding depends on: torch and the processor. Where that is
this machine's, losses are the same to the bit, and elsewhere to `ROUNDING`. A class that has no files yet gets them by

    python -m tests.golden

which also writes those of this class again; a change of them is a change of what training computes, for the changelog.
"""

import json
import os
import platform
import re
from pathlib import Path

import torch
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from tests.conftest import train_here
from tests.modules.conftest import NEW, ROWS, TASKS, TINY
from tests.runs.test_train import losses
from tiryns.runner.launch.resume import run_folder
from tiryns.runner.manifest.machine import machine
from tiryns.runner.run.environment import environment
from tiryns.runner.run.folder import RunFolder
from tiryns.runner.train import train

ROUNDING = 1e-4
"""Largest relative difference of a loss between processors of one class, or versions of torch."""

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


def class_of_processor() -> str:
    """The instructions that torch computes with here: `avx512`, `avx2`, `neon`, ..."""
    found = re.sub(r"\W+", "_", torch.backends.cpu.get_cpu_capability().lower())
    on_arm = platform.machine() in ("arm64", "aarch64")
    return "neon" if on_arm and found == "default" else found


def made_by() -> str:
    """What rounding depends on within a class: torch, the processor, and its caches, by which libraries cut matrices."""
    info = Path("/proc/cpuinfo")
    numbers = re.findall(r"^(?:cpu family|model)\s*: (\d+)$", info.read_text(), re.M) if info.exists() else []
    cpu = str(environment()["cpu"]).rpartition(" x ")[0] or platform.processor()
    limit = os.environ.get("ATEN_CPU_CAPABILITY")
    limited = f", limited to {limit}" if limit else ""
    cpu = f"{cpu} ({'.'.join(numbers[:2])}), caches {machine()['caches']}{limited}"
    return f"# torch {torch.__version__}, {cpu}, 1 thread"


def golden_file(recipe: str) -> Path:
    """The file of a recipe for this class."""
    return Path(__file__).parent / class_of_processor() / f"{recipe}.txt"


def golden_run(recipe: str, folder: Path, text_file: Path) -> RunFolder:
    """Trains a recipe on the tests' own data."""
    if recipe in PRETRAINING:
        done: RunFolder = train_here(folder / "run", text_file, f"objective={recipe}", *FIXED)
        return done
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS[recipe](60, 0)))
    OmegaConf.register_new_resolver("run_folder", run_folder, replace=True)
    arguments = [*TASKS[recipe], f"data.train={data}", *TINY, *NEW, *FIXED]
    with initialize_config_module("tiryns.conf", version_base="1.3"):
        config = compose("config", arguments)
    run = RunFolder(folder / "run")
    run.begin(config, arguments)
    train(config, run)
    return run


def golden_losses(run: RunFolder) -> list[float]:
    """The loss of each step, in full."""
    found = losses(run)
    return [found[step] for step in range(1, STEPS + 1)]
