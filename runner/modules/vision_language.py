"""Vision-language finetuning: the shared step, and evaluation of the answers that the model writes."""

import logging
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from iolaus.conf import module as options
from iolaus.runner.config.settings import takes_settings
from iolaus.runner.data.micro_batch import MicroBatch, Share
from iolaus.runner.models.vision.vision_language import VisionLanguageModel
from iolaus.runner.modules.finetuning import FinetuningRun
from iolaus.runner.order.permutation import permute
from iolaus.runner.run.errors import TrainingFailure

log = logging.getLogger("iolaus")


class VisionLanguageModule(FinetuningRun):
    """Finetunes a model of images and text, which answers `generated_samples` of each evaluated set (all if 0).

    Samples with an image that cannot be decoded are left out; more than `data.max_undecodable` end the run.
    Example: `iolaus experiment=vlm_shapes module.generated_samples=8`
    """

    model: VisionLanguageModel

    @takes_settings(options.VisionLanguage)
    def __init__(self, settings: options.VisionLanguage, **given: Any) -> None:
        names = (f.name for f in fields(options.Finetuning) if f.name != "_target_")
        super().__init__(**{name: getattr(settings, name) for name in names}, **given)
        self.generated_samples, self.max_new_tokens = settings.generated_samples, settings.max_new_tokens
        self.votes["undecodable"] = 0.0
        self._undecodable: set[int] = set()

    def training_step(self, batch: Share, batch_idx: int) -> dict[str, Any]:
        """The shared step; also counts the images that cannot be decoded."""
        found = {int(i) for micro in batch["micro_batches"] for i in micro["undecodable"]} - self._undecodable
        self.votes["undecodable"] = float(len(found))
        outputs = super().training_step(batch, batch_idx)
        if outputs["votes"]["undecodable"]:
            self._undecodable.update(*self.gather_objects(found))
            self._check_undecodable(found)
        return outputs

    def output(self, micro_batch: MicroBatch, number: int) -> dict[str, Tensor]:
        """Also `written` [M, K], the model's answers to the samples `asked` [M] (-1 does not count)."""
        rows = sample_rows(micro_batch)
        size = self._sets[number][1].predictions.size()
        chosen = [i for i, sample in enumerate(micro_batch["samples"].tolist()) if self._asks(sample, size)]
        asked = micro_batch["samples"][chosen]
        if not chosen and self.device_mesh is not None:  # ranks that share weights must write together
            chosen, asked = [0], micro_batch["samples"].new_tensor([-1])
        written = torch.empty((0, self.max_new_tokens), dtype=torch.int64, device=self.device)
        if chosen:
            lengths = micro_batch["prompt_lengths"].tolist()
            prompts = [rows[i][: lengths[i]] for i in chosen]
            written = self.model.generate(prompts, images_of(micro_batch, chosen), self.max_new_tokens)
        return {**super().output(micro_batch, number), "asked": asked, "written": written}

    def figures(self, totals: dict[str, float]) -> dict[str, float]:
        """Mean loss per token of the answers, and the share of these tokens that is guessed right."""
        found = super().figures(totals)
        return {**found, "token_accuracy": totals["correct"] / max(totals["weight"], 1e-12)}

    def _asks(self, sample: int, size: int) -> bool:
        """Whether a sample is among the `generated_samples` of its set, which are always the same."""
        return sample >= 0 and permute(sample, size, 0) < (self.generated_samples or size)

    def _check_undecodable(self, found: set[int]) -> None:
        """Warns of each new one; raises TrainingFailure for more than `data.max_undecodable`."""
        sequences = self.datamodule.train
        for index in sorted(found):
            log.warning("%s has an image that cannot be decoded: left out", sequences.examples[index].name())
        if len(self._undecodable) > sequences.max_undecodable:
            raise TrainingFailure(
                f"{len(self._undecodable)} samples have images that cannot be decoded, data.max_undecodable="
                f"{sequences.max_undecodable}: among them {sequences.examples[min(self._undecodable)].name()}"
            )


def sample_rows(micro_batch: MicroBatch) -> list[Tensor]:
    """The tokens of each sample of a micro-batch, of padded rows with their padding."""
    ids = micro_batch["input_ids"]
    if "cu_seqlens" not in micro_batch:
        return list(ids)
    return list(ids[0].split(micro_batch["cu_seqlens"].diff().tolist()))


def images_of(micro_batch: MicroBatch, chosen: list[int]) -> dict[str, Tensor]:
    """The inputs of the vision tower for some samples' images; empty if they have none."""
    counts = micro_batch["image_counts"]
    if "images" not in micro_batch or not counts[chosen].any():
        return {}
    numbers = torch.arange(int(counts.sum())).split(counts.tolist())
    shown = torch.cat([numbers[i] for i in chosen]).tolist()
    found = {}
    for name, tensor in micro_batch["images"].items():
        parts = tensor.split(micro_batch["image_rows"][name].tolist())
        found[name] = torch.cat([parts[i] for i in shown])
    return found
