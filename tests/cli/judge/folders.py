"""Folders of finished runs as a comparison finds them, made without training."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

KEY = "val/held_out/loss"
BEGAN = "2026-11-23T12:00:00.000+00:00"
SECOND = 1795435200.0
"""The same moment, as `metrics.csv` has it."""

CONFIG: dict[str, dict[str, Any]] = {
    "data": {"validation_documents": 0.02, "seed": 0},
    "objective": {
        "_target_": "runner.objectives.MaskedLanguageModelingCollator",
        "validation_mlm_probability": 0.15,
    },
    "model": {"hidden_size": 128},
    "trainer": {"max_steps": 60, "validation_batches": None},
}


def make_run(
    folder: Path, seed: int, loss: float, words: Sequence[str] = (), *, state: str = "done", curve: bool = True,
    tokens: float = 6000, flops: float = 6e9, speed: float = 2.0, inputs: dict[str, Any] | None = None,
    results: dict[str, float] | None = None, settings: dict[str, Any] | None = None,
) -> Path:  # fmt: skip
    """A run of 60 steps with a validation every 20, whose loss falls to `loss`; `speed` in steps a second."""
    folder.mkdir(parents=True)
    config: dict[str, Any] = {
        **{k: dict(v) for k, v in CONFIG.items()},
        "seed": seed,
        "sampler": {"seed": seed},
    }
    for name, value in (settings or {}).items():
        group, _, field = name.partition(".")
        config.setdefault(group, {})[field] = value
    for word in words:
        name, _, value = word.partition("=")
        group, _, field = name.partition(".")
        config.setdefault(group, {})[field or "_target_"] = yaml.safe_load(value)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "overrides.json").write_text(json.dumps([f"seed={seed}", *words]))
    (folder / "command.txt").write_text(shlex.join(["tiryns", f"seed={seed}", *words]))
    found = {KEY: loss, "objective": loss, **(results or {})} if state == "done" else {}
    status = {"state": state, "monitor": KEY, "mode": "min", "step": 60, "results": found}
    (folder / "status.json").write_text(json.dumps(status))
    rows = [(step, loss + (60 - step) / 100) for step in (20, 40, 60)] if curve else [(60, loss)]
    lines = [f"{step},{SECOND + step / speed},{value}" for step, value in rows]
    (folder / "metrics.csv").write_text("\n".join([f"step,time,{KEY}", *lines, ""]))
    (folder / "order.txt").write_text("".join(f"{step} {seed:012x}\n" for step in range(1, 61)))
    known = {"data": "d", "evaluation": {"held_out": "e"}, "tokenizer": "t", "sources": {"train": "s"}}
    manifest = {
        "inputs": known | (inputs or {}),
        "totals": {"steps": 60, "counted_from_step": 0, "tokens": tokens, "flops": flops},
        "sessions": [{"began": BEGAN}],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def make_sweep(folder: Path, losses: Mapping[str, Sequence[float]], shared: Sequence[str] = ()) -> Path:
    """A sweep: for each word (overrides with spaces between) the losses of seeds 1, 2, ..."""
    number = 0
    for words, figures in losses.items():
        for seed, loss in enumerate(figures, 1):
            make_run(folder / str(number), seed, loss, [*words.split(), *shared])
            number += 1
    return folder
