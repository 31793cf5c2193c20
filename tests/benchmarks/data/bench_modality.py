"""Batches of one modality against mixed ones: steps of a vision-language model on the drawn scenes, a third of them text.

The same model takes the same number of epochs' samples through `sampler=split_modality` and `sampler=shuffled`, step by
step in turn, in padded and in packed rows. Times are CPU seconds of forward, backward and update, for each step the
median over the repeats; loading is done beforehand. Tokens are real ones, places for images included.
"""

import statistics
import time
from typing import Any, NamedTuple

from tests.benchmarks.fitting import update
from tiryns.runner.data.micro_batch import Share

STEPS = 12
SAMPLES = 2700
OVERRIDES = [
    "experiment=vlm_shapes", "trainer=cpu", "trainer.precision=32-true", f"data.train.size={SAMPLES}",
    "data.validation.size=9", "data.test=null", "data.num_workers=0", f"trainer.max_steps={STEPS}",
]  # fmt: skip


class Side(NamedTuple):
    """One sampler's batches, and the model that trains on them."""

    name: str
    batches: list[Share]
    model: Any
    optimizer: Any


def main(repeats: int = 3) -> None:
    """Prints a table for each layout."""
    for layout in ("padded", "packed"):
        sides = [side(sampler, layout) for sampler in ("split_modality", "shuffled")]
        seconds: dict[str, list[list[float]]] = {s.name: [[] for _ in range(STEPS)] for s in sides}
        for _ in range(repeats):
            for k in range(STEPS):
                for s in sides:
                    seconds[s.name][k].append(step(s, s.batches[k]))
        speeds = [
            sum(batch["tokens"] for batch in s.batches) / sum(map(statistics.median, seconds[s.name]))
            for s in sides
        ]
        print(f"\n{layout} rows\n\n| batches | tokens/CPU s | real tokens | images | micro-batches without |")
        print("|---|---|---|---|---|")
        for s, speed in zip(sides, speeds, strict=True):
            print(line(s, speed))
        print(f"\none modality per batch: {speeds[0] / speeds[1]:.2f} times the speed of mixed batches")


def side(sampler: str, layout: str) -> Side:
    """The first batches of a sampler, and a fresh model."""
    from tests.support.composed import composed
    from tiryns.runner.loop.assembly import assemble

    parts = assemble(composed([*OVERRIDES, f"sampler={sampler}", f"data.layout={layout}"]))
    batches = parts.data.train_batches(rank=0, num_ranks=1)
    return Side(sampler, [batches[k] for k in range(STEPS)], parts.model, parts.optimizer)


def step(side: Side, batch: Share) -> float:
    """CPU seconds of one update."""
    began = time.process_time()
    update(side.model, side.optimizer, batch)
    return time.process_time() - began


def line(side: Side, speed: float) -> str:
    """A row of the table."""
    tokens, padded = (sum(batch[name] for batch in side.batches) for name in ("tokens", "padded_tokens"))
    micro = [m for batch in side.batches for m in batch["micro_batches"]]
    images = sum(int(m["image_counts"].sum()) for m in micro)
    blind = sum("images" not in m for m in micro)
    name = "of one modality" if side.name == "split_modality" else "mixed"
    return f"| {name} | {speed:,.0f} | {tokens / padded:.1%} | {images} | {blind} of {len(micro)} |"
