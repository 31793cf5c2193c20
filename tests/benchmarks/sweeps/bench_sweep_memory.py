"""How the memory of one process grows over the jobs of a sweep."""

import re
import tempfile
from pathlib import Path

from tests.benchmarks.training.bench_startup import FIRST_STEP
from tests.support.processes import process

JOBS = (1, 25, 100, 300)
"""After how many jobs the memory is read."""

PROGRAM = """
import os
import sys
from tiryns.runner.cli.commands import main
from tiryns.runner.sweeps.sweep_page import SweepPage

ended, jobs = SweepPage.on_job_end, 0

def on_job_end(*given, **named):
    global jobs
    ended(*given, **named)
    jobs += 1
    if jobs in JOBS:
        pages = int(open("/proc/self/statm").read().split()[1])
        files, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        megabytes = pages * os.sysconf("SC_PAGE_SIZE") // 2**20
        print("MEASURED", jobs, megabytes, files, threads, file=sys.stderr, flush=True)

SweepPage.on_job_end = on_job_end
main()
"""

KERNELS = dict.fromkeys(("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"), "1024")


def measure(folder: str, at: tuple[int, ...] = JOBS, **environment: str) -> list[list[int]]:
    """Jobs, megabytes, open files and threads, as the process of a sweep goes on, after so many jobs."""
    tiny = [*FIRST_STEP, "model=bert_tiny", "sampler.global_batch_size=8", f"seed=range(0,{at[-1]})"]
    command = ["-c", f"JOBS = {at}{PROGRAM}", "train", "-m", *tiny]
    done = process(*command, cwd=Path(folder), timeout=None, HF_HUB_OFFLINE="1", **environment)
    assert done.returncode == 0, done.stderr
    return [[int(word) for word in found.split()] for found in re.findall(r"MEASURED (.*)", done.stderr)]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bounded, unbounded = measure(folder), measure(folder, JOBS, **KERNELS)
    print(
        "| jobs of one step so far | resident memory, MB | with torch's own bound on kernels, MB | open files | threads |"
    )
    print("|---|---|---|---|---|")
    for (jobs, megabytes, files, threads), (_, before, _, _) in zip(bounded, unbounded, strict=True):
        print(f"| {jobs} | {megabytes:,} | {before:,} | {files} | {threads} |")
