"""Does the cost of a step depend on how much data there is? Stores of 10^4, 10^6 and 10^8 documents, a process for each.

The token files are sparse (all zeros), so they take no room; the offsets are real. Measured from after the imports:
seconds until the first global batch is collated, what the next hundred cost, and the memory that the process has for
itself by then (pages of the mapped files are the system's, which takes them back when it likes).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

LENGTH, BATCH, STEPS, VOCAB = 16, 256, 100, 30_522


def make_store(folder: Path, documents: int) -> None:
    """A store of `documents` sequences of 16 tokens, as the writer lays it out."""
    folder.mkdir()
    with open(folder / "tokens.bin", "wb") as file:
        file.truncate(documents * LENGTH * 2)
    with open(folder / "offsets.bin", "wb") as file:
        for start in range(0, documents + 1, 10**7):
            (np.arange(start, min(start + 10**7, documents + 1), dtype=np.int64) * LENGTH).tofile(file)
    meta = {
        "format_version": 2, "dtype": "uint16", "num_sequences": documents, "num_tokens": documents * LENGTH,
        "num_bytes": None, "max_token_id": 0, "attributes": {}, "fingerprint": "none",
    }  # fmt: skip
    (folder / "meta.json").write_text(json.dumps(meta))


def measure(folder: Path) -> dict[str, float]:
    """Opens the store, draws batches in random order, masks and collates them."""
    from iolaus.runner.data.batches import MASK_STREAM, GlobalBatches
    from iolaus.runner.data.store.reader import TokenStore
    from iolaus.runner.objectives.mlm import MaskedLanguageModelingCollator
    from iolaus.runner.samplers import Shuffled

    before = own_memory()
    began = time.process_time()
    store = TokenStore(folder)
    sampler = Shuffled(dataset=store, num_epochs=None, num_batches=10**6, global_batch_size=BATCH, seed=1)
    facts: dict[str, Any] = {
        "pad_token_id": 1, "mask_token_id": 2, "vocab_size": VOCAB, "special_token_ids": [1, 2],
        "text_column": "text", "label_column": None, "max_sequence_length": LENGTH,
    }  # fmt: skip
    collator = MaskedLanguageModelingCollator(mlm_probability=0.3, **facts)
    batches = GlobalBatches(
        sequences=store, sampler=sampler, collator=collator, seed=1, stream=MASK_STREAM, rank=0, num_ranks=1,
        micro_batch_tokens=4096, micro_batch_size=None, packed=False,
    )  # fmt: skip
    batches[0]
    first = time.process_time()
    for step in range(1, STEPS + 1):
        batches[step * 997]
    done = time.process_time()
    return {"start": first - began, "step": (done - first) / STEPS, "memory": own_memory() - before}


def own_memory() -> float:
    """MiB of memory that is no file's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def main() -> None:
    """Prints a row per size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", type=Path)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    print(f"global batches of {BATCH} documents of {LENGTH} tokens, shuffled; CPU time of one process\n")
    print("| documents | until the first batch, s | step, ms | memory for it, MiB |\n|---|---|---|---|")
    for documents in (10**4, 10**6, 10**8):
        with tempfile.TemporaryDirectory() as folder:
            make_store(Path(folder) / "store", documents)
            command = [
                sys.executable,
                "-m",
                "tests.benchmarks.data.bench_scale",
                "--measure",
                f"{folder}/store",
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
        found = json.loads(done.stdout)
        print(f"| {documents:,} | {found['start']:.3f} | {found['step'] * 1e3:.2f} | {found['memory']:.0f} |")


if __name__ == "__main__":
    main()
