"""Masked language modelling (arXiv 1810.04805, section 3.1), with masks keyed by sample, and related objectives."""

from typing import Any, ClassVar

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tiryns.conf.objective import pretraining
from tiryns.runner.data.micro_batch import Batch, FlatSamples, MicroBatch
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.masking import Masking, TokenCounts
from tiryns.runner.objectives.options import TAUGHT, takes_options
from tiryns.runner.objectives.rows import IGNORED, Places, Shape, spread
from tiryns.runner.order.keyed import mix64, token_bits


class MaskedTargetsCollator(FlatCollator):
    """Masks tokens by the settings of `MaskedTargets`; validation has its own rate, and defaults for all other settings.

    Example:
        >>> collator = MaskedLanguageModelingCollator(0, 4, 50, mlm_probability=0.3, final_mlm_probability=0.1)
        >>> round(collator.rate_at(0.5), 3)
        0.2
    """

    packs = True
    options: pretraining.MaskedTargets

    def __init__(self, tokenizer: Any = None, token_counts: TokenCounts | None = None, **shared: Any) -> None:
        super().__init__(**shared)
        self.tokenizer, option = tokenizer, self.options
        units = (option.masking, option.max_span, option.mask_share, option.random_share)
        others = (option.fixed_count, option.favour, tokenizer, token_counts)
        self.training_masks, self.validation_masks = Masking(self, *units, *others), Masking(self)

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        bits = token_bits(tokenized["keys"], tokenized["lengths"])
        if tokenized.get("evaluation"):
            masks, rate = self.validation_masks, self.options.validation_mlm_probability
        else:
            masks, rate = self.training_masks, self.rate_at(tokenized.get("progress", 0.0))
        masked_ids, labels = masks.mask_tokens(tokenized, bits, rate)
        return {"input_ids": masked_ids, "labels": labels}

    def rate_at(self, progress: float) -> float:
        first, last = self.options.mlm_probability, self.options.final_mlm_probability
        return first if last is None else first + (last - first) * progress


class MaskedLanguageModelingCollator(MaskedTargetsCollator):
    """Each ordinary token is a target with probability `mlm_probability`, in validation `validation_mlm_probability`.

    Of the targets 80 % become the mask token, 10 % a random ordinary token and 10 % stay. Special tokens are never chosen
    and never inserted. `masking`, `max_span`, `mask_share`, `random_share`, `fixed_count` and `favour` change that in
    training (see `Masking`), never in validation. `tokenizer` defines the words, and `token_counts` the frequencies:
    how often each token [V] occurs, or a function that counts.

    With a `teacher`, a name or folder, the model learns from its logits and hidden states as well: see
    `runner.models.distillation.masked_lm`.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> samples = [{"input_ids": [2, 11, 12, 13, 3]}, {"input_ids": [2, 21, 3]}]
        >>> collator = MaskedLanguageModelingCollator(0, 4, 50, mlm_probability=1.0, special_token_ids=[1, 2, 3])
        >>> batch = next(iter(DataLoader(samples, batch_size=2, collate_fn=collator)))
        >>> batch["attention_mask"].tolist()
        [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
        >>> batch["labels"].tolist()
        [[-100, 11, 12, 13, -100], [-100, 21, -100, -100, -100]]
    """

    options: pretraining.MaskedLanguageModeling
    built_with: ClassVar[tuple[str, ...]] = (*TAUGHT, "top_k", "hidden_weight", "hidden_layers")
    nats_per_token = True
    __init__ = takes_options(
        pretraining.MaskedLanguageModeling, "text_column", "max_sequence_length", "mlm_probability"
    )(MaskedTargetsCollator.__init__)

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the model with its head on the targets only; with a `teacher` it also learns from the teacher."""
        from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM

        options = self.options
        if options.teacher is None:
            return SparseMaskedLM(pretrained)
        from tiryns.runner.models.distillation.masked_lm import DistilledMaskedLM
        from tiryns.runner.models.distillation.teacher import load_teacher

        arguments = ("AutoModelForMaskedLM", self.tokenizer)
        teacher = load_teacher(options.teacher, *arguments, max_length=self.max_sequence_length)
        return DistilledMaskedLM(pretrained, SparseMaskedLM(teacher), options)


class ReplacedTokenDetectionCollator(FlatCollator):
    """Masks tokens as masked language modelling does; of the targets `kept_share` stay, the others become the mask token.

    A generator of a fraction of the model's size predicts the targets and replaces them by samples, and the model learns
    which tokens of the text were replaced. The model's loss is divided by the number of tokens, the generator's loss
    by the number of its targets. Validation masks single tokens, with the same shares. Sampling is keyed like masks.

    Example:
        >>> collator = ReplacedTokenDetectionCollator(0, 4, 50, mlm_probability=0.5, special_token_ids=[1, 2, 3])
        >>> ids, key = np.array([2, 11, 12, 13, 14, 3]), np.array([9], np.uint64)
        >>> batch = collator({"input_ids": ids, "lengths": np.array([6]), "keys": key})
        >>> batch["targets"].tolist(), batch["weight"], batch["denominators"]
        ([12, 14], 6.0, {'masked': 2.0})
    """

    packs = True
    options: pretraining.ReplacedTokenDetection
    built_with = (
        "generator_size", "generator_depth", "generator", "shared_embeddings", "discriminator_weight",
        "discriminator_head", "temperature", "export_generator",
    )  # fmt: skip
    adds_networks = True

    @takes_options(pretraining.ReplacedTokenDetection)
    def __init__(self, tokenizer: PreTrainedTokenizerBase | None = None, **shared: Any) -> None:
        super().__init__(**shared)
        option, share = self.options, 1 - self.options.kept_share
        self.training_masks = Masking(self, option.masking, option.max_span, share, 0.0, tokenizer=tokenizer)
        self.validation_masks = Masking(self, mask_share=share, random_share=0.0)

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns the generator's `input_ids` [N] and `labels` [N]."""
        masks, rate = self.training_masks, self.options.mlm_probability
        if tokenized.get("evaluation"):
            masks, rate = self.validation_masks, self.options.validation_mlm_probability
        bits = token_bits(tokenized["keys"], tokenized["lengths"])
        masked_ids, labels = masks.mask_tokens(tokenized, bits, rate)
        return {"input_ids": masked_ids, "labels": labels}

    def weight(self, labelled: FlatSamples) -> float:
        """Returns the number of tokens, including special tokens; 0 for fillers."""
        return 0.0 if labelled.get("filler") else float(len(labelled["input_ids"]))

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns the generator's denominator, the number of its targets."""
        return {"denominators": {"masked": float(np.count_nonzero(labelled["labels"] != IGNORED))}}

    def rate_at(self, progress: float) -> float:
        return self.options.mlm_probability

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the model as the discriminator, with a generator beside it."""
        from tiryns.runner.models.pretraining.replaced_tokens import ReplacedTokenDetector

        return ReplacedTokenDetector(pretrained, torch.from_numpy(self.is_special), self.options)


class EnhancedMaskedLanguageModelingCollator(FlatCollator):
    """Makes every ordinary token a target of a one-layer decoder, which masks its own input.

    The decoder predicts each token from the sentence embedding and a random subset of the other tokens; `decoder_masking`
    is the share of hidden tokens. With `encoder_mlm_probability` above 0 the encoder reads a masked input and has a
    masked language modelling loss of its own; in validation `validation_mlm_probability` of its tokens are masked. In
    training its targets are `encoder_masking` units of `Masking` (words by `tokenizer`); validation always uses tokens.

    The loss is the mean of the decoder's loss per ordinary token and the encoder's loss per target, weighted 1 to
    `encoder_loss_weight`. The encoder's targets are counted by their expectation, the masked share of the ordinary
    tokens, so that the number of ordinary tokens is the only denominator of the global batch.

    Example:
        >>> collator = EnhancedMaskedLanguageModelingCollator(0, 4, 50, special_token_ids=[1, 2, 3])
        >>> batch = collator([{"input_ids": [2, 11, 12, 3]}, {"input_ids": [2, 21, 3]}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[2, 11, 12, 3], [2, 21, 3, 0]], [[-100, 11, 12, -100], [-100, 21, -100, -100]])
        >>> batch["row_seeds"].shape
        torch.Size([2, 4])
    """

    packs = True
    options: pretraining.EnhancedMaskedLanguageModeling
    built_with = ("decoder_masking", "encoder_loss_weight", "encoder_mlm_probability", "pooling")
    adds_networks = True
    nats_per_token = True

    @takes_options(pretraining.EnhancedMaskedLanguageModeling)
    def __init__(self, tokenizer: PreTrainedTokenizerBase | None = None, **shared: Any) -> None:
        super().__init__(**shared)
        self.training_masks = Masking(self, self.options.encoder_masking, tokenizer=tokenizer)
        self.validation_masks = Masking(self)

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns unchanged `input_ids` [N], the ordinary tokens as `labels`, and random `bits` that decide the masks."""
        ids = tokenized["input_ids"]
        bits = token_bits(tokenized["keys"], tokenized["lengths"])
        return {"input_ids": ids, "labels": np.where(self.is_special[ids], IGNORED, ids), "bits": bits}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns `row_seeds`, the seeds of the decoder's masks, int32 in rows like the tokens. If the encoder masks,
        also `encoder_input_ids` in rows, `encoder_target_positions` and `encoder_targets` [M], and `encoder_rate`.
        """
        bits = labelled["bits"]
        seeds = (mix64(bits) >> np.uint64(32)).astype(np.uint32).view(np.int32)
        batch: MicroBatch = {"row_seeds": spread(seeds, places, shape, 0).to(torch.int32)}
        if rate := self.options.encoder_mlm_probability:
            masks = self.training_masks
            if labelled.get("evaluation"):
                masks, rate = self.validation_masks, self.options.validation_mlm_probability
            masked_ids, labels = masks.mask_tokens(labelled, bits, rate)
            indices = np.flatnonzero((labels != IGNORED) & (labelled["labels"] != IGNORED))
            batch["encoder_input_ids"] = spread(masked_ids, places, shape, self.pad_token_id)
            batch["encoder_target_positions"] = torch.from_numpy(places[indices])
            batch["encoder_targets"] = torch.from_numpy(labels[indices])
            batch["encoder_rate"] = torch.tensor(rate)
        return batch

    def rows(self, labelled: FlatSamples, places: Places, shape: Shape) -> Batch:
        """Returns `input_ids` and `labels` [B, T], and the fields of `extra_fields`."""
        return {**super().rows(labelled, places, shape), **self.extra_fields(labelled, places, shape)}

    def targets_per_token(self, progress: float) -> float:
        """Returns the targets of the decoder, which are all tokens, and of the encoder."""
        return 1 + self.options.encoder_mlm_probability

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the model with the enhanced decoder beside its own head."""
        from tiryns.runner.models.pretraining.enhanced import EnhancedMaskedLM

        return EnhancedMaskedLM(pretrained, self.options, self.max_sequence_length)
