"""How long a command takes to answer: printing config, and reaching the first step, imports included."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
FIRST_STEP = ["trainer=cpu", "trainer.max_steps=1", "trainer.validate_every=0", "data.num_workers=0"]
IMPORTS = "import torch, lightning.pytorch, transformers, datasets"


def measure(command: list[str], folder: str) -> tuple[float, float]:
    """CPU seconds and wall seconds of a command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.perf_counter() - began


def main(repeats: int = 5) -> None:
    program = [sys.executable, "-m", "runner.train"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "iolaus --help": [*program, "--help"],
        "iolaus --cfg job": [*program, "--cfg", "job"],
        "iolaus --info optimizer=lion": [*program, "--info", "optimizer=lion"],
        "whole run of one step, data cached": [*program, *FIRST_STEP],
        "the libraries' imports alone": [sys.executable, "-c", IMPORTS],
    }
    with tempfile.TemporaryDirectory() as folder:
        measure(commands["whole run of one step, data cached"], folder)  # fills the cache
        samples = {
            name: [measure(command, folder) for _ in range(repeats)] for name, command in commands.items()
        }
    print("| command | CPU seconds | wall seconds |\n|---|---|---|")
    for name, pairs in samples.items():
        cpu, wall = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"| {name} | {cpu:.2f} | {wall:.2f} |")


if __name__ == "__main__":
    main()
