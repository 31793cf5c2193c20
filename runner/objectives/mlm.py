"""Masked language modelling (arXiv 1810.04805, section 3.1), with masks keyed by sample."""

from typing import Any, ClassVar

from transformers import PreTrainedModel

from tiryns.conf.objective.pretraining import MaskedLanguageModeling
from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import TAUGHT, FlatCollator
from tiryns.runner.objectives.masking import Masking
from tiryns.runner.order.keyed import token_bits


class MaskedLanguageModelingCollator(FlatCollator):
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

    packs = True
    built_with: ClassVar[tuple[str, ...]] = (*TAUGHT, "top_k", "hidden_weight", "hidden_layers")
    nats_per_token = True

    def __init__(
        self,
        pad_token_id: int,
        mask_token_id: int,
        vocab_size: int,
        text_column: str = "text",
        max_sequence_length: int = 1024,
        mlm_probability: float = 0.3,
        final_mlm_probability: float | None = None,
        validation_mlm_probability: float = 0.15,
        masking: str = "tokens",
        max_span: int = 3,
        mask_share: float = 0.8,
        random_share: float | None = None,
        fixed_count: bool = False,
        favour: str | None = None,
        teacher: str | None = None,
        teacher_weight: float = 0.5,
        label_weight: float = 0.5,
        teacher_temperature: float = 2.0,
        top_k: int | None = None,
        hidden_weight: float = 0.0,
        hidden_layers: str = "last",
        tokenizer: Any = None,
        token_counts: Any = None,
        **shared: Any,
    ) -> None:
        super().__init__(
            pad_token_id, mask_token_id, vocab_size, text_column, max_sequence_length=max_sequence_length, **shared
        )  # fmt: skip
        self.mlm_probability, self.validation_mlm_probability = mlm_probability, validation_mlm_probability
        self.final_mlm_probability = final_mlm_probability
        self.masking, self.max_span = masking, max_span
        self.mask_share, self.random_share = mask_share, random_share
        self.fixed_count, self.favour = fixed_count, favour
        self.teacher, self.teacher_weight, self.label_weight = teacher, teacher_weight, label_weight
        self.teacher_temperature, self.top_k = teacher_temperature, top_k
        self.hidden_weight, self.hidden_layers, self.tokenizer = hidden_weight, hidden_layers, tokenizer
        self.check_settings(MaskedLanguageModeling)
        choice = (masking, max_span, mask_share, random_share, fixed_count, favour)
        self.training_masks, self.validation_masks = (
            Masking(self, *choice, tokenizer, token_counts),
            Masking(self),
        )

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Masked `input_ids` [N] and `labels` [N]."""
        bits = token_bits(tokenized["keys"], tokenized["lengths"])
        if tokenized.get("evaluation"):
            masked, labels = self.validation_masks.masked(tokenized, bits, self.validation_mlm_probability)
        else:
            rate = self.rate_at(tokenized.get("progress", 0.0))
            masked, labels = self.training_masks.masked(tokenized, bits, rate)
        return {"input_ids": masked, "labels": labels}

    def rate_at(self, progress: float) -> float:
        """The share of targets when so much of the run, 0 to 1, is done.

        Example:
            >>> collator = MaskedLanguageModelingCollator(0, 4, 50, mlm_probability=0.3, final_mlm_probability=0.1)
            >>> round(collator.rate_at(0.5), 3)
            0.2
        """
        if self.final_mlm_probability is None:
            return self.mlm_probability
        return self.mlm_probability + (self.final_mlm_probability - self.mlm_probability) * progress

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model with its head on the targets only; with a teacher one that learns from it."""
        from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM

        if self.teacher is None:
            return SparseMaskedLM(pretrained)
        from tiryns.runner.models.distillation.losses import Weights
        from tiryns.runner.models.distillation.masked_lm import DistilledMaskedLM
        from tiryns.runner.models.distillation.teacher import load_teacher

        teacher = SparseMaskedLM(load_teacher(self.teacher, "AutoModelForMaskedLM", self.tokenizer))
        weights = Weights(
            self.label_weight, self.teacher_weight, self.teacher_temperature, self.top_k, self.hidden_weight
        )
        return DistilledMaskedLM(pretrained, teacher, weights, self.hidden_layers == "uniform")
