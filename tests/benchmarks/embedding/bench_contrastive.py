"""Training on pairs with negatives of the batch, against the trainer of sentence-transformers.

    python -m tests.benchmarks.embedding.bench_contrastive [--model bert_tiny] [--batches 256 2048]

Each training is a process of its own with one thread. All have the same initial weights, rows, order and optimizer, so
that losses are the same to rounding; their largest difference over the steps is shown. Their losses need
`sentence-transformers` and `accelerate`.
"""

import argparse
import json
import os
import random
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.benchmarks.embedding.peer_contrastive import CONTENDERS, LONGEST, Case, train
from tests.benchmarks.fitting import alone
from tests.benchmarks.training.bench_end_to_end import silence
from tiryns.runner.run.environment import environment

STEPS = 6
WORDS, VOCABULARY = 1500, 2000


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Contrastive training against sentence-transformers.")
    parser.add_argument("--model", default="bert_tiny", help="an option of the group model")
    parser.add_argument("--batches", type=int, nargs="*", default=[256, 2048], help="pairs of a step")
    options = parser.parse_args()
    if find_spec("sentence_transformers") is None or find_spec("accelerate") is None:
        print("needs `pip install sentence-transformers accelerate`")
        return
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "sentence-transformers"))
    print(f"{options.model}, at most {LONGEST} tokens, {STEPS} steps; {libraries}; {environment()['cpu']}\n")
    print(
        "| pairs of a step | | loss of the last step | largest difference | CPU seconds a step | memory, MB |"
    )
    print("|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), options.model, STEPS * max(options.batches))
        for batch in options.batches:
            order: list[list[int]] = []
            losses: list[float] = []
            for who in CONTENDERS:
                found = alone(train, Case(who, folder, batch, STEPS, order))
                order, losses = found.order, losses or found.losses
                apart = max(abs(a - b) for a, b in zip(losses, found.losses, strict=True))
                told = "" if found.losses is losses else f"{apart:.1e}"
                cells = [f"{found.losses[-1]:.5f}", told, f"{found.seconds:.2f}", f"{found.megabytes:,.0f}"]
                print(f"| {batch:,} | {who} | {' | '.join(cells)} |", flush=True)
    print("\n(memory: what training adds at its peak)")


def prepare(folder: Path, model: str, num_rows: int) -> None:
    """Writes the rows, and a model with a tokenizer of their words."""
    import torch
    from transformers import AutoModel

    from tests.support.composed import composed
    from tiryns.runner.data.text.tokenizer import train_tokenizer
    from tiryns.runner.loop.plain import make_model_of
    from tiryns.runner.models.head import Head

    rows = made_pairs(num_rows)
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with silence():
        tokenizer = train_tokenizer(
            [text for row in rows[:2000] for text in row.values()], "wordpiece", VOCABULARY, True
        )
        config = composed([f"model={model}"])
        torch.manual_seed(0)
        network: Any = make_model_of(config.model, tokenizer, head=Head(AutoModel))
        network.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")


def made_pairs(number: int) -> list[dict[str, str]]:
    """Queries of a few words, and passages that hold some of them among others; no text comes twice."""
    draw = random.Random(0)
    parts = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
    words = sorted({"".join(draw.choices(parts, k=3)) for _ in range(WORDS)})
    rows = []
    for place in range(number):
        query = draw.choices(words, k=draw.randint(4, 12))
        others = draw.choices(words, k=int(min(60, draw.lognormvariate(3, 0.6))))
        passage = [*draw.sample(query, 3), *others]
        draw.shuffle(passage)
        rows.append({"query": f"{place} {' '.join(query)}", "passage": f"{' '.join(passage)} {place}"})
    return rows


if __name__ == "__main__":
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    main()
