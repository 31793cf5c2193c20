"""Sharded stores for tests, written without datatrove."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.store.sharded import FORMAT_VERSION, INDEX
from tiryns.runner.data.store.writer import Batch, write_store

CUTTING = {"max_length": 16, "long_documents": "sentences"}


def sequences(num: int, vocab_size: int = 50) -> list[list[int]]:
    rng = np.random.default_rng(num)
    return [rng.integers(5, vocab_size, rng.integers(1, 12)).tolist() for _ in range(num)]


def token_store(folder: Path, content: list[list[int]]) -> TokenStore:
    tokens, lengths = np.concatenate([*content]).astype(np.int64), np.array([*map(len, content)], np.int32)
    return write_store(folder, 50, {}, lambda _: iter([Batch(tokens, lengths, 0, len(tokens))]))


def sharded_folder(folder: Path, *sizes: int, **fields: Any) -> Path:
    """A finished sharded store: training shards of these sizes, and a held-out set of one shard of 7 sequences."""
    content, sets, start = sequences(sum(sizes)), {}, 0
    shards = {"held_out": [token_store(folder / "shards/00000/held_out", sequences(7))], "train": []}
    for number, size in enumerate(sizes):
        shards["train"].append(
            token_store(folder / f"shards/{number:05d}/train", content[start : start + size])
        )
        start += size
    for name, stores in shards.items():
        sets[name] = {
            "fingerprint": f"{name} of {sum(map(len, stores))}",
            "documents": sum(map(len, stores)),
            "num_sequences": sum(map(len, stores)),
            "num_tokens": sum(store.num_tokens for store in stores),
            "num_bytes": 1,
            "shards": [
                {"folder": store.folder.relative_to(folder).as_posix(), "fingerprint": store.fingerprint}
                for store in stores
            ],
            "unigram_entropy": 3.5,
            "tokens_per_byte": 0.25,
        }
    index = {"format_version": FORMAT_VERSION, **CUTTING, "tokenizer": "", "sets": sets} | fields
    (folder / INDEX).write_text(json.dumps(index))
    (folder / "tokenizer").mkdir(exist_ok=True)
    (folder / "tokenizer" / "any.json").write_text("{}")
    return folder
