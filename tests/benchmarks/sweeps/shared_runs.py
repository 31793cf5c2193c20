"""Runs of one config and seed that differ in samples alone, and share all that is made before the first step."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.support.composed import composed
from tiryns.runner.data.batches import VALIDATION_STREAM, GlobalBatches
from tiryns.runner.data.without import Without, substitutes_of
from tiryns.runner.loop.assembly import assemble
from tiryns.runner.models.quick.gradients import clip
from tiryns.runner.samplers import Sequential


class Runs:
    """Runs of one config and seed in fp32 that differ in the samples that are replaced."""

    def __init__(self, words: Sequence[str], seed: int) -> None:
        self.parts = assemble(composed([*words, f"seed={seed}"]))
        data = self.parts.data
        self.order = data.sampler
        self.initial = {name: value.clone() for name, value in self.parts.model.state_dict().items()}
        batches = data.train_batches(0, 1)
        self.whole = [batches[step] for step in range(self.parts.max_steps)]
        (held_out,) = data.validation.values()
        size = min(256, len(held_out))
        sampler = Sequential(
            dataset=held_out, num_epochs=1, num_batches=None, global_batch_size=size, seed=data.seed
        )
        cut = (0, 1, *data.partitioning)
        found = GlobalBatches(held_out, sampler, data.collator, data.seed, VALIDATION_STREAM, *cut)
        self.held_out = [found[step] for step in range(len(sampler))]

    def loss(self, replaced: Sequence[int]) -> float:
        """The last validation loss, of the averaged weights where the config has an average."""
        parts, model = self.parts, self.parts.model
        model.load_state_dict(self.initial)
        model.train()
        optimizer = parts.module.make_optimizer(model=model)
        scheduler = parts.module.make_scheduler(optimizer=optimizer, max_steps=parts.max_steps)
        weights = [one for one in model.parameters() if one.requires_grad]
        average, decay = [one.detach().clone() for one in weights], parts.module.settings.ema or 0.0
        for share in self._shares(np.array(sorted(replaced), np.int64)):
            for batch in share["micro_batches"]:
                (model(batch)["loss"] / share["weight"]).backward()
            clip(weights, 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            torch._foreach_lerp_(average, [one.detach() for one in weights], 1 - decay)
        model.eval()
        with torch.inference_mode():
            for one, averaged in zip(weights, average, strict=True):
                one.copy_(averaged)  # without a decay these are the weights
            batches = [batch for share in self.held_out for batch in share["micro_batches"]]
            total = sum(float(model(batch)["loss"]) for batch in batches)
        return total / sum(share["weight"] for share in self.held_out)

    def _shares(self, replaced: NDArray[np.int64]) -> Iterator[Any]:
        """The global batches; those that no sample is replaced in are made once for all runs."""
        data = self.parts.data
        data.sampler = self.order
        if len(replaced):
            data.sampler = Without(self.order, replaced, substitutes_of(replaced, data), "")
        batches = data.train_batches(0, 1)
        for step, share in enumerate(self.whole):
            touched = np.isin(share["sample_ids"][:, 1], replaced).any()
            yield batches[step] if touched else share
