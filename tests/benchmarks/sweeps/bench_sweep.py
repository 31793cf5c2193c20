"""What a job costs in a sweep beyond its training, against a process of its own for each."""

import statistics
import sys
import tempfile

from tests.benchmarks.training.bench_startup import FIRST_STEP, IMPORTS, measure

MORE = 8
"""Jobs of the longer sweep beyond the one of the shorter."""


def main(repeats: int = 5) -> None:
    program = [sys.executable, "-m", "runner.train"]
    tiny = [*FIRST_STEP, "model=bert_tiny", "sampler.global_batch_size=8"]
    seeds = ",".join(map(str, range(MORE + 1)))
    commands = {
        "one": [*program, "-m", *tiny, "seed=0"],
        "more": [*program, "-m", *tiny, f"seed={seeds}"],
        "alone": [*program, *tiny],
        "imports": [sys.executable, "-c", IMPORTS],
    }
    samples: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        measure(commands["alone"], folder)  # fills the cache
        for _ in range(repeats):
            for name, command in commands.items():
                samples[name].append(measure(command, folder)["ended"])
    in_sweep = [(more - one) / MORE for one, more in zip(samples["one"], samples["more"], strict=True)]
    rows = {
        "a job of one step, within a sweep": in_sweep,
        "the same as a process of its own": samples["alone"],
        "the libraries' imports alone": samples["imports"],
    }
    print("| what | CPU seconds |\n|---|---|")
    for name, values in rows.items():
        print(f"| {name} | {statistics.median(values):.2f} |")
