"""Pairs of a few words that belong together by the words they share, and runs on them."""

import json
import random
from pathlib import Path
from typing import Any

from tests.data.labelled.tasks import WORDS
from tests.support.precision import PRECISION

LETTERS = "bcdfghjklm"

TINY = [
    "data=pairs", "objective=contrastive", "module=finetuning", "model=bert_tiny", "model.hidden_size=32",
    "model.intermediate_size=64", "data.vocab_size=300", "data.max_length=32", "data.micro_batch_tokens=150",
    "sampler.global_batch_size=12", "trainer=cpu", f"trainer.precision={PRECISION}", "trainer.max_steps=8",
    "trainer.validate_every=4", "trainer.log_every=1", "optimizer.lr=0.003", "scheduler=constant",
    "checkpoint.every_steps=4", "checkpoint.keep_last=9",
]  # fmt: skip


def names() -> list[str]:
    """Words that are not otherwise used."""
    return [f"{a}a{b}o{c}i" for a in LETTERS for b in LETTERS for c in LETTERS[:3]]


def pairs(count: int = 60, seed: int = 0, negatives: int = 0) -> list[dict[str, Any]]:
    """A query with a name of its own, a passage with the same name, and hard negatives with another one."""
    draw, every = random.Random(seed), names()
    draw.shuffle(every)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        query, passage, *others = (
            " ".join(draw.choices(WORDS.split(), k=draw.randint(1, 8))) for _ in range(5)
        )
        name = every[number]
        rows.append({"query": f"{name} {query}", "passage": f"{passage} {name}"})
        if negatives:
            rows[-1]["negative"] = [
                f"{other} {every[-1 - number]}" for other in others[: number % (negatives + 1)]
            ]
    return rows


def scored(count: int = 60, seed: int = 0) -> list[dict[str, Any]]:
    """Two texts of four words, and how many they share."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        words = draw.sample(names(), 8)
        shared = number % 5
        rows.append({"query": " ".join(words[:4]), "passage": " ".join(words[4 - shared : 8 - shared])})
        rows[-1]["score"] = float(shared)
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows as a file of JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
