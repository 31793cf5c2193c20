"""How long idle threads of OpenMP spin before they sleep: `python -m tests.benchmarks threads`.

Forward and backward pass of a packed micro-batch with dropout by keys of samples, on every core, in wall time, alone and
beside another run. Each way has processes of its own, as the libraries read it once; the ways take turns.
"""

import os
import statistics
import subprocess
import sys
import time

from tests.benchmarks.data.bench_permute import table
from tests.benchmarks.training.bench_dropout import SIZES, build, documents
from tests.support.processes import ROOT
from tiryns.runner.launch.processes import SPINS, keep_freed_memory
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.run.environment import num_cores

ROUNDS, STEPS, TOKENS = 3, 12, 256
WAYS = {
    "sleep at once": "0",
    f"{SPINS} turns, as a run does": SPINS,
    "300,000 turns, as libgomp does": "300000",
}
STEP_TIME = "from tests.benchmarks.training.bench_threads import steps; steps()"


def main() -> None:
    """Prints the table."""
    if num_cores() < 2:
        print("needs two cores")
        return
    seconds: dict[tuple[str, int], list[float]] = {(way, runs): [] for way in WAYS for runs in (1, 2)}
    for turn in range(ROUNDS):
        for way, runs in sorted(seconds, reverse=turn % 2 == 1):
            seconds[way, runs].append(measured(WAYS[way], runs))
    middle = {key: statistics.median(found) for key, found in seconds.items()}
    first = next(iter(WAYS))
    print(
        f"Steps of some {TOKENS} tokens, {num_cores()} threads, wall time, dropout .1; median of {ROUNDS} rounds\n"
    )
    rows = []
    for way in WAYS:
        ratios = [f"{middle[way, runs] / middle[first, runs]:.2f}" for runs in (1, 2)]
        rows.append((way, *(f"{middle[way, runs] * 1e3:,.0f}" for runs in (1, 2)), *ratios))
    table(("idle threads", "alone, ms", "beside another, ms", "alone, ratio", "beside, ratio"), rows)


def measured(spins: str, runs: int) -> float:
    """Seconds of a step, in the mean of that many processes at once."""
    environment = os.environ | {"GOMP_SPINCOUNT": spins, "OMP_NUM_THREADS": str(num_cores())}
    command = [sys.executable, "-c", STEP_TIME]
    processes = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(runs)
    ]
    return statistics.mean(float(process.communicate()[0]) for process in processes)


def steps() -> None:
    """Prints the median seconds of a step of this process."""
    keep_freed_memory()
    model, micro_batch, seconds = build(SIZES["MiniLM-L6"], 0.1), documents(TOKENS), []
    for _ in range(STEPS):
        began = time.perf_counter()
        with dropout_keys(micro_batch, 7):
            model(micro_batch)["loss"].backward()
        model.zero_grad()
        seconds.append(time.perf_counter() - began)
    print(statistics.median(seconds[STEPS // 6 :]))
