"""Replaced token detection (arXiv 2003.10555): the masks; the model samples what stands in their places."""

from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from tiryns.conf.objective.pretraining import ReplacedTokenDetection
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.masking import Masking
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows.layout import IGNORED, Places, Shape
from tiryns.runner.order.keyed import token_bits


class ReplacedTokenDetectionCollator(FlatCollator):
    """Masks tokens as masked language modelling does; of the targets `kept_share` stay, the others become the mask token.

    A generator of a fraction of the model's size predicts the targets and replaces them by samples, and the model learns
    which tokens of the text were replaced. Its losses are divided by the number of tokens, those of the generator by the
    number of its targets. Validation masks tokens, in the same shares. Samples are keyed as masks are.

    Example:
        >>> collator = ReplacedTokenDetectionCollator(0, 4, 50, mlm_probability=0.5, special_token_ids=[1, 2, 3])
        >>> ids, key = np.array([2, 11, 12, 13, 14, 3]), np.array([9], np.uint64)
        >>> batch = collator({"input_ids": ids, "lengths": np.array([6]), "keys": key})
        >>> batch["targets"].tolist(), batch["weight"], batch["denominators"]
        ([12, 14], 6.0, {'masked': 2.0})
    """

    packs = True
    options: ReplacedTokenDetection
    built_with = (
        "generator_size", "generator_depth", "generator", "shared_embeddings", "discriminator_weight",
        "discriminator_head", "temperature", "export_generator",
    )  # fmt: skip

    @takes_options(ReplacedTokenDetection)
    def __init__(self, tokenizer: Any = None, **shared: Any) -> None:
        super().__init__(**shared)
        chosen, share = self.options, 1 - self.options.kept_share
        self.training_masks = Masking(self, chosen.masking, chosen.max_span, share, 0.0, tokenizer=tokenizer)
        self.validation_masks = Masking(self, mask_share=share, random_share=0.0)

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """The generator's `input_ids` [N] and `labels` [N]."""
        masks, rate = self.training_masks, self.options.mlm_probability
        if tokenized.get("evaluation"):
            masks, rate = self.validation_masks, self.options.validation_mlm_probability
        bits = token_bits(tokenized["keys"], tokenized["lengths"])
        masked, labels = masks.masked(tokenized, bits, rate)
        return {"input_ids": masked, "labels": labels}

    def weight(self, labelled: FlatSamples) -> float:
        """The number of tokens, special ones among them; 0 for fillers."""
        return 0.0 if labelled.get("filler") else float(len(labelled["input_ids"]))

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """The generator's denominator, the number of its targets."""
        return {"denominators": {"masked": float(np.count_nonzero(labelled["labels"] != IGNORED))}}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model as the discriminator, with a generator beside it."""
        from tiryns.runner.models.pretraining.replaced_tokens import ReplacedTokenDetector

        given = {name: getattr(self.options, name) for name in self.built_with}
        given["generator"] = self.options.generator or {}
        return ReplacedTokenDetector(pretrained, torch.from_numpy(self.is_special), **given)
