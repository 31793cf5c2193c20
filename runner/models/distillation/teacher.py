"""The teacher: a trained model that is evaluated and never trained.

Its weights are not among the student's parameters; neither checkpoints nor the export contain them.
"""

from collections.abc import Sequence
from typing import Any, Self

import torch
import transformers
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tiryns.runner.models.encoder import tokenizer_of_model
from tiryns.runner.models.head import labels_of, order_of, reorder_labels
from tiryns.runner.models.positions import check_length
from tiryns.runner.models.weights import few, load_trained, load_weights
from tiryns.runner.models.wrapped import WrappedModel
from tiryns.runner.patches.transformers import attention_of
from tiryns.runner.run.model_folder import model_folder


def load_teacher(
    name_or_path: str,
    auto: str,
    tokenizer: PreTrainedTokenizerBase | None,
    labels: Sequence[str] = (),
    max_length: int = 0,
) -> PreTrainedModel:
    """Returns the trained model of the class `auto` under a hub name, in a folder or in a run folder.

    Raises:
        ValueError: the model cannot be loaded with its head, has other tokens than `tokenizer` or other `labels`, or
            reads fewer than `max_length` tokens.
    """
    try:
        kind, path = getattr(transformers, auto), model_folder(name_or_path)
        # of an encoder alone a pooler that nothing has trained is left as it is drawn, and not asked
        model = load_weights(kind, path)[0] if auto == "AutoModel" else load_trained(kind, path)
        check_length(model, max_length)
        vocabulary = None if tokenizer is None else tokenizer_of_model(name_or_path).get_vocab()
    except ValueError as error:
        raise ValueError(f"objective.teacher: {error}") from error
    if tokenizer is not None and vocabulary != tokenizer.get_vocab():
        raise ValueError(
            f"objective.teacher: the model {name_or_path!r} has other tokens than the data; use its tokenizer: "
            f"data.tokenizer={model_folder(name_or_path)}"
        )
    if labels and (names := labels_of(model.config)) != [*labels]:
        if (order := order_of(names, labels)) is None:
            raise ValueError(
                f"objective.teacher: the model {name_or_path!r} was trained for {len(names)} labels ({few(names, 5)}), "
                f"the data has {len(labels)} ({few(labels, 5)}): set data.labels to the teacher's labels"
            )
        reorder_labels(model, order)
    return model


class Taught(WrappedModel):
    """The base class of students; `learn_from` sets the teacher.

    In validation the loss is that of the labels alone, as for a model without a teacher.
    """

    teacher: Any
    """A frozen task model that gives its outputs for the student's micro-batches. Weights are at least fp32; the
    computation follows the run's precision, as the student's does."""

    options: Any
    """The settings of the objective: `label_weight`, `teacher_weight` and others."""

    def learn_from(self, teacher: WrappedModel, options: object) -> Self:
        """Sets the teacher, and the settings of the objective, which weigh the parts of the loss.

        The teacher is in evaluation mode from then on, without gradient and without dropout.
        """
        self.__dict__["teacher"] = teacher.eval()  # no submodule, whose weights would be the student's
        self.teacher.requires_grad_(False)
        self.options = options
        return self

    def teacher_on(self, device: torch.device) -> Any:
        """Returns the teacher on a device, where it then stays."""
        if self.teacher.pretrained.device != device:
            self.teacher.to(device)
        return self.teacher

    def fixed_models(self) -> dict[str, nn.Module]:
        return {"objective.teacher": self.teacher.pretrained}

    def pack_rows(self) -> None:
        before = attention_of(self.teacher.pretrained.config)
        try:
            self.teacher.pack_rows()
        except ValueError as error:
            raise ValueError(f"the teacher: {error}") from error
        try:
            super().pack_rows()
        except BaseException:  # both continue with padded rows
            self.teacher.pretrained.set_attn_implementation(before)
            self.teacher.position_offset = None
            raise

    def try_padding(self) -> str:
        """As `TaskModel.try_padding`, for teacher and student."""
        try:
            reason = self.teacher.try_padding()
        except ValueError as error:
            raise ValueError(f"the teacher: {error}") from error
        return reason or super().try_padding()
