"""What lists and reports of many runs cost, beside scripts that read as much and no more."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.training.bench_startup import ROOT

RUNS, ROWS, RATES = 2_000, 1_000_000, (0.001, 0.002)

TINY = [
    "trainer=cpu", "trainer.max_steps=40", "trainer.validate_every=20", "trainer.log_every=1", "data.num_workers=0",
    "data.max_length=48", "model=bert_tiny", "sampler.global_batch_size=8", "callback=[]",
]  # fmt: skip

PROGRAM = [sys.executable, "-c", "from tiryns.runner.cli.commands import main; main()"]

LISTED = """
import glob, json, os, yaml
import pandas as pd

rows = []
for file in glob.glob("outputs/*/*/config.yaml"):
    with open(file) as config:
        found = yaml.load(config, yaml.CSafeLoader)
    if found["optimizer"]["weight_decay"] == 0.01:
        folder = os.path.dirname(file)
        with open(f"{folder}/status.json") as status:
            noted = json.load(status)
        %s
        rows.append({"folder": folder, "state": noted["state"], **noted["results"]})
print(pd.DataFrame(rows))
"""
"""Lists the runs with a setting; PyYAML's parser in C is the fastest there is for their configs."""

READ_METRICS = 'noted["results"] |= pd.read_csv(f"{folder}/metrics.csv").iloc[-1].to_dict()'

DRAWN = """
import pandas as pd

metrics = pd.read_csv("outputs/long/run/metrics.csv")
curves = {name: metrics[name].dropna() for name in metrics.columns}
pd.DataFrame({name: curve.iloc[:: max(1, len(curve) // 1000)] for name, curve in curves.items()}).to_json("curves.json")
"""
"""Reads the metrics and writes a thousand points of each curve."""


def measure(command: list[str], folder: Path) -> tuple[float, int]:
    """CPU seconds of a command, and the megabytes that it had at its peak."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    peak, ended = 0, 0
    while not ended:
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        if not ended:  # what the kernel adds up begins with the memory of this process
            noted = Path(f"/proc/{process.pid}/status").read_text()
            peak = max([peak, *map(int, re.findall(r"VmHWM:\s+(\d+)", noted))])
            time.sleep(0.01)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime, peak // 1024


def make_runs(folder: Path) -> None:
    """Trains a run for each rate, and copies what is small of them until there are `RUNS`."""
    templates = []
    for rate in RATES:
        measure([*PROGRAM, *TINY, f"optimizer.lr={rate}", f"hydra.run.dir=trained/{rate}"], folder)
        templates.append(folder / "trained" / str(rate))
    for number in range(RUNS):
        files = [file for file in templates[number % len(templates)].iterdir() if file.is_file()]
        run = folder / "outputs" / "2026-01-01" / f"{number:05d}"
        run.mkdir(parents=True)
        for file in files:
            if file.suffix != ".html":
                shutil.copy(file, run)


def make_long_run(folder: Path) -> None:
    """A run whose training loss, learning rate and speed were logged for `ROWS` steps."""
    run = folder / "outputs" / "long" / "run"
    shutil.copytree(folder / "outputs" / "2026-01-01" / "00000", run)
    with open(run / "metrics.csv", "w") as file:
        file.write("step,time,train/loss,optim/lr,perf/tokens_per_second\n")
        for step in range(1, ROWS + 1):
            file.write(
                f"{step},{step / 10:.3f},{5 + 1000 / (step + 300):.6f},{1e-3:.6g},{40000 + step % 977}\n"
            )
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps(status | {"step": ROWS, "max_steps": ROWS}))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_runs(folder)
        script = [sys.executable, "-c"]
        rows = {
            f"`tiryns runs --with optimizer.lr={RATES[0]}`, {RUNS:,} runs": [
                *PROGRAM, "runs", "--with", f"optimizer.lr={RATES[0]}",
            ],
            f"`tiryns runs --with optimizer.weight_decay=0.01`, {RUNS:,} runs": [
                *PROGRAM, "runs", "--with", "optimizer.weight_decay=0.01",
            ],
            "a script with PyYAML in C, their `status.json` alone": [*script, LISTED % "pass"],
            "the same, and pandas reads each `metrics.csv`": [*script, LISTED % READ_METRICS],
        }  # fmt: skip
        figures = {what: measure(command, folder) for what, command in rows.items()}
        make_long_run(folder)
        report = [*PROGRAM, "report", "outputs/long/run", "--out", "report.html"]
        figures[f"`tiryns report`, {ROWS:,} logged rows"] = measure(report, folder)
        figures["a script: pandas reads them, and writes 1,000 points a curve"] = measure(
            [*script, DRAWN], folder
        )
    print("| what | CPU seconds | peak memory, MB |\n|---|---|---|")
    for what, (seconds, megabytes) in figures.items():
        print(f"| {what} | {seconds:.1f} | {megabytes:,} |")
