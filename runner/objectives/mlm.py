"""Masked language modelling (arXiv 1810.04805, section 3.1), with masks keyed by sample."""

from typing import Any, ClassVar

from transformers import PreTrainedModel

from tiryns.conf.objective.pretraining import MaskedLanguageModeling, MaskedTargets
from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.masking import Masking
from tiryns.runner.objectives.options import TAUGHT, takes_options
from tiryns.runner.order.keyed import token_bits


class MaskedTargetsCollator(FlatCollator):
    """Masks tokens as the settings of `MaskedTargets` say, in validation as they are by default.

    Example:
        >>> collator = MaskedLanguageModelingCollator(0, 4, 50, mlm_probability=0.3, final_mlm_probability=0.1)
        >>> round(collator.rate_at(0.5), 3)
        0.2
    """

    packs = True
    options: MaskedTargets

    def __init__(self, tokenizer: Any = None, token_counts: Any = None, **shared: Any) -> None:
        super().__init__(**shared)
        self.tokenizer, chosen = tokenizer, self.options
        units = (chosen.masking, chosen.max_span, chosen.mask_share, chosen.random_share)
        others = (chosen.fixed_count, chosen.favour, tokenizer, token_counts)
        self.training_masks, self.validation_masks = Masking(self, *units, *others), Masking(self)

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Masked `input_ids` [N] and `labels` [N]."""
        bits = token_bits(tokenized["keys"], tokenized["lengths"])
        if tokenized.get("evaluation"):
            masks, rate = self.validation_masks, self.options.validation_mlm_probability
        else:
            masks, rate = self.training_masks, self.rate_at(tokenized.get("progress", 0.0))
        masked, labels = masks.masked(tokenized, bits, rate)
        return {"input_ids": masked, "labels": labels}

    def rate_at(self, progress: float) -> float:
        """The share of targets when so much of the run, 0 to 1, is done."""
        first, last = self.options.mlm_probability, self.options.final_mlm_probability
        return first if last is None else first + (last - first) * progress


class MaskedLanguageModelingCollator(MaskedTargetsCollator):
    """Each ordinary token is a target with probability `mlm_probability`, in validation `validation_mlm_probability`.

    Of the targets 80 % become the mask token, 10 % a random ordinary token and 10 % stay. Special tokens are never chosen
    and never inserted. `masking`, `max_span`, `mask_share`, `random_share`, `fixed_count` and `favour` change that in
    training (see `Masking`), never in validation. Words are those of `tokenizer`, frequencies those of `token_counts`,
    the number of times that each token [V] occurs, or a function that counts.

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

    options: MaskedLanguageModeling
    built_with: ClassVar[tuple[str, ...]] = (*TAUGHT, "top_k", "hidden_weight", "hidden_layers")
    nats_per_token = True
    __init__ = takes_options(MaskedLanguageModeling, "text_column", "max_sequence_length", "mlm_probability")(
        MaskedTargetsCollator.__init__
    )

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model with its head on the targets only; with a teacher one that learns from it."""
        from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM

        options = self.options
        if options.teacher is None:
            return SparseMaskedLM(pretrained)
        from tiryns.runner.models.distillation.losses import Weights
        from tiryns.runner.models.distillation.masked_lm import DistilledMaskedLM
        from tiryns.runner.models.distillation.teacher import load_teacher

        known = ("AutoModelForMaskedLM", self.tokenizer)
        loaded = load_teacher(options.teacher, *known, max_length=self.max_sequence_length)
        teacher = SparseMaskedLM(loaded)
        weights = Weights(
            options.label_weight,
            options.teacher_weight,
            options.teacher_temperature,
            options.top_k,
            options.hidden_weight,
        )
        return DistilledMaskedLM(pretrained, teacher, weights, options.hidden_layers == "uniform")
