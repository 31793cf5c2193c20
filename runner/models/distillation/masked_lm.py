"""A masked language model that learns from the logits and hidden states of another one at the targets."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tiryns.conf.objective.pretraining import MaskedLanguageModeling
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.distillation.losses import cosine_distance, divergence, matching_layers
from tiryns.runner.models.distillation.teacher import Taught
from tiryns.runner.models.pretraining.sparse_head import Scored, SparseMaskedLM, rows_at


class DistilledMaskedLM(Taught, SparseMaskedLM):
    """Trains on the sum over the targets of `label_weight` CE + `teacher_weight` T^2 KL + `hidden_weight` (1 - cos).

    The factors are settings of the objective (DistilBERT, arXiv 1910.01108, section 3). The cosine compares last hidden
    states. With `hidden_layers=uniform` it is a mean over the student's layers, each compared with the teacher's layer at
    the same relative depth. If the widths differ, a learned linear map without a bias maps the student's hidden states to
    the teacher's width (TinyBERT, arXiv 1909.10351, equation 8). The map is not exported.

    Letters in shapes: N targets, H width.

    Example:
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}
        >>> deep, flat = (BertForMaskedLM(BertConfig(num_hidden_layers=n, **sizes)) for n in (3, 1))
        >>> student = DistilledMaskedLM(flat, SparseMaskedLM(deep), MaskedLanguageModeling())
        >>> sum(p.numel() for p in student.parameters()) == sum(p.numel() for p in flat.parameters())
        True
    """

    options: MaskedLanguageModeling

    def __init__(
        self, pretrained: PreTrainedModel, teacher: SparseMaskedLM, options: MaskedLanguageModeling
    ) -> None:
        super().__init__(pretrained)
        self.learn_from(teacher, options)
        config, teacher_config = (each.config.get_text_config() for each in (pretrained, teacher.pretrained))
        last = (config.num_hidden_layers, teacher_config.num_hidden_layers)
        self.layers = matching_layers(*last) if options.hidden_layers == "uniform" else [last]
        self.widen: nn.Module | None = None
        if options.hidden_weight and config.hidden_size != teacher_config.hidden_size:
            self.widen = nn.Linear(config.hidden_size, teacher_config.hidden_size, bias=False)

    def compile_core(self) -> None:
        super().compile_core()
        self.teacher.trace_head()

    def target_losses(self, micro_batch: MicroBatch, positions: Tensor) -> Scored:
        hidden = self.options.hidden_weight
        if not (self.training and (self.options.teacher_weight or hidden)):
            return super().target_losses(micro_batch, positions)
        layers, teacher_layers = zip(*self.layers if hidden else self.layers[-1:], strict=True)
        with torch.no_grad():
            taught = states_at(self.teacher_on(positions.device), micro_batch, positions, teacher_layers)
        states = states_at(self, micro_batch, positions, layers)
        factors = micro_batch.get("target_weights")
        losses, correct = self.score_each(states[-1], micro_batch["targets"], factors, positions, taught[-1])
        if hidden:
            distance = self.distance(states, taught)
            distance = hidden * (distance if factors is None else distance * factors)
            parts = distance.split([len(chunk) for chunk in losses])
            losses = [loss + part for loss, part in zip(losses, parts, strict=True)]
        return losses, correct

    @property
    def reads_logits(self) -> bool:
        """Whether the loss from logits (`token_losses`) differs from the cross-entropy with the label."""
        return bool(self.options.teacher_weight) or self.options.label_weight != 1

    def token_losses(self, logits: Tensor, targets: Tensor, *taught: Tensor) -> Tensor:
        """Returns weighted losses [N] from logits, targets and, if given, the teacher's last hidden states [N, H]."""
        losses, options = super().token_losses(logits, targets), self.options
        if self.training:
            losses = options.label_weight * losses
        if taught and options.teacher_weight:
            with torch.no_grad():
                teacher_logits = self.teacher.logits(*taught)
            apart = divergence(logits, teacher_logits, options.teacher_temperature, options.top_k)
            losses = losses + options.teacher_weight * apart
        return losses

    def distance(self, student: Sequence[Tensor], teacher: Sequence[Tensor]) -> Tensor:
        """Returns the mean over layers of the distances [N] of hidden states [N, H]."""
        widened_states = student if self.widen is None else [self.widen(states) for states in student]
        distances = [cosine_distance(*pair) for pair in zip(widened_states, teacher, strict=True)]
        return torch.stack(distances).mean(0)


def states_at(
    model: SparseMaskedLM, micro_batch: MicroBatch, positions: Tensor, layers: Sequence[int]
) -> list[Tensor]:
    """Returns hidden states [N, H] at positions [N] after each of `layers` (from 1); the last must be the top layer."""
    arguments = model.arguments(micro_batch)
    if len(layers) > 1:
        arguments["output_hidden_states"] = True
    with model.last_layer.at(positions):
        output = model.pretrained.base_model(**arguments)
    states = [*(output.hidden_states[layer] for layer in layers[:-1]), output[0]]
    return [rows_at(state, positions) for state in states]
