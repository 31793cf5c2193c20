"""A tiny vision-language model and a few scenes for it, as a run builds them."""

import random
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from tests.support.precision import PRECISION
from tiryns.runner.data.batches import GlobalBatches
from tiryns.runner.data.demo.scenes import Scenes
from tiryns.runner.samplers import Sequential

SHAPES = ["data=shapes", "data.train.size=72", "data.validation.size=36", "data.test=null"]
"""A few scenes."""

TINY_VISION = [
    "objective=vision_language", "module=vision_language", "module.max_new_tokens=4", "data.vocab_size=300",
    "data.num_workers=0", "sampler.global_batch_size=12", "trainer=cpu", f"trainer.precision={PRECISION}",
    "trainer.max_steps=6", "trainer.validate_every=3", "trainer.log_every=1", "optimizer.lr=0.003",
]  # fmt: skip
"""A run of seconds; data and model go before it."""

SMALL = ["model.hidden_size=32", "model.intermediate_size=64", "model.vision_hidden_size=32"]
"""Sizes for `model=llava_tiny` and `smolvlm_tiny`."""


def scenes_of_many_sizes(folder: Path, size: int) -> Path:
    """Writes `train.jsonl` and `images/`, scenes each in a size of its own; returns the former's path."""
    rows = Scenes("train", size).export(folder)
    draw = random.Random(0)
    for path in sorted((folder / "images").iterdir()):
        with Image.open(path) as image:
            image.resize((draw.randrange(20, 120), draw.randrange(20, 120))).save(path)
    return rows


class TinyVision(NamedTuple):
    """Data, objective and model, freshly initialised."""

    data: Any
    objective: Any
    model: Any

    def share(
        self, packed: bool, part: str = "train", size: int = 18, tokens: int | None = None
    ) -> list[Any]:
        """The micro-batches of the first `size` samples."""
        sequences = self.data.train if part == "train" else self.data.validation[part]
        sampler = Sequential(
            dataset=sequences, num_epochs=1, num_batches=None, global_batch_size=size, seed=0
        )
        batches = GlobalBatches(sequences, sampler, self.objective, 0, 1, 0, 1, tokens, None, packed=packed)
        return batches[0]["micro_batches"]


def compose_vision(*overrides: str) -> Any:
    """The config of a tiny run; the overrides choose data and model."""
    from tests.support.composed import composed

    return composed([*TINY_VISION, *overrides])


def tiny_vision(model: str, *overrides: str) -> TinyVision:
    """The parts of a tiny run, in evaluation mode."""
    from tiryns.runner.build import build

    config = compose_vision(*SHAPES, f"model={model}", *(SMALL if "bert" not in model else []), *overrides)
    data = build(config.data)
    data.prepare_data()
    torch.manual_seed(0)
    objective = build(config.objective, **data.collator_arguments())
    pretrained = build(config.model, tokenizer=data.tokenizer, **objective.model_arguments())
    return TinyVision(data, objective, objective.task_model(pretrained).eval())
