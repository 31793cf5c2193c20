"""RetroMAE's enhanced decoding (arXiv 2205.12035, section 3.3): the seeds of the masks, which the model applies."""

from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from tiryns.conf.objective.pretraining import EnhancedMaskedLanguageModeling
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.masking import Masking
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows.layout import IGNORED, Places, Shape, spread
from tiryns.runner.order.keyed import mix64, token_bits


class EnhancedMaskedLanguageModelingCollator(FlatCollator):
    """Makes every ordinary token a target of a one-layer decoder, which masks its own input.

    The decoder predicts each token from the sentence embedding and a random subset of the other tokens; `decoder_masking`
    is the share that it does not see. With `encoder_mlm_probability` above 0 the encoder reads a masked input and has a
    masked language modelling loss of its own; in validation `validation_mlm_probability` of its tokens are masked. The
    encoder's targets are `encoder_masking` by `tokenizer` in training (see `Masking`), in validation always tokens.

    The loss is the mean of the decoder's loss per ordinary token and the encoder's loss per target, weighted 1 to
    `encoder_loss_weight`. The number of the encoder's targets is the expected one, the masked share of the ordinary
    tokens, so that one denominator, the number of ordinary tokens, holds for the whole global batch.

    Example:
        >>> collator = EnhancedMaskedLanguageModelingCollator(0, 4, 50, special_token_ids=[1, 2, 3])
        >>> batch = collator([{"input_ids": [2, 11, 12, 3]}, {"input_ids": [2, 21, 3]}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[2, 11, 12, 3], [2, 21, 3, 0]], [[-100, 11, 12, -100], [-100, 21, -100, -100]])
        >>> batch["row_seeds"].shape
        torch.Size([2, 4])
    """

    packs = True
    options: EnhancedMaskedLanguageModeling
    built_with = ("decoder_masking", "encoder_loss_weight", "encoder_mlm_probability", "pooling")
    nats_per_token = True

    @takes_options(EnhancedMaskedLanguageModeling)
    def __init__(self, tokenizer: Any = None, **shared: Any) -> None:
        super().__init__(**shared)
        self.training_masks = Masking(self, self.options.encoder_masking, tokenizer=tokenizer)
        self.validation_masks = Masking(self)

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """The unchanged `input_ids` [N], every ordinary token as its own label, and the random `bits` of the masks."""
        ids = tokenized["input_ids"]
        bits = token_bits(tokenized["keys"], tokenized["lengths"])
        return {"input_ids": ids, "labels": np.where(self.is_special[ids], IGNORED, ids), "bits": bits}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """`row_seeds` int32 in rows like the tokens, the seeds of the decoder's masks; with masking in the encoder also
        `encoder_input_ids`, `encoder_target_positions` and `encoder_targets` [M], and `encoder_rate`.
        """
        bits = labelled["bits"]
        seeds = (mix64(bits) >> np.uint64(32)).astype(np.uint32).view(np.int32)
        batch: MicroBatch = {"row_seeds": spread(seeds, places, shape, 0).to(torch.int32)}
        if rate := self.options.encoder_mlm_probability:
            masks = self.training_masks
            if labelled.get("evaluation"):
                masks, rate = self.validation_masks, self.options.validation_mlm_probability
            masked, labels = masks.masked(labelled, bits, rate)
            chosen = np.flatnonzero((labels != IGNORED) & (labelled["labels"] != IGNORED))
            batch["encoder_input_ids"] = spread(masked, places, shape, self.pad_token_id)
            batch["encoder_target_positions"] = torch.from_numpy(places[chosen])
            batch["encoder_targets"] = torch.from_numpy(labels[chosen])
            batch["encoder_rate"] = torch.tensor(rate)
        return batch

    def rows(self, labelled: FlatSamples, places: Places, shape: Shape) -> dict[str, Any]:
        """`input_ids` and `labels` [B, T], and the fields of `extra_fields`."""
        return {**super().rows(labelled, places, shape), **self.extra_fields(labelled, places, shape)}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model with the enhanced decoder beside its own head."""
        from tiryns.runner.models.pretraining.enhanced import EnhancedMaskedLM

        return EnhancedMaskedLM(
            pretrained,
            decoder_masking=self.options.decoder_masking,
            masks_encoder=self.options.encoder_mlm_probability > 0,
            encoder_loss_weight=self.options.encoder_loss_weight,
            pooling=self.options.pooling,
            max_sequence_length=self.max_sequence_length,
        )
