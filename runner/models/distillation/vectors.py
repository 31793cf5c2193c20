"""A model that maps texts to vectors, and learns from pairs of texts and from the vectors of a teacher.

Letters in shapes: X texts of a micro-batch, D rows, K texts of a row, H hidden.
"""

from typing import Self

import torch
from torch import Tensor, nn

from tiryns.conf.objective.contrastive import MARGIN, SCORED
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.distillation.losses import cosine_distance
from tiryns.runner.models.distillation.teacher import Taught
from tiryns.runner.models.embedding.contrastive import ContrastiveModel
from tiryns.runner.models.embedding.losses import Pairs
from tiryns.runner.models.embedding.pooling import pool
from tiryns.runner.models.wrapped import WrappedModel


class DistilledVectors(Taught, ContrastiveModel):
    """Trains on `label_weight` times the loss of pairs plus `teacher_weight` times each row's mean of 1 - cos.

    The cosine compares the student's vector of a text with the teacher's, pooled in the same way. If their widths
    differ, a learned linear map without a bias maps the student's vectors to the teacher's width. The map is not
    exported. If the loss of pairs uses scores, rows without a score are left out.
    """

    widen: nn.Module | None
    """The map between widths; None if they are equal."""

    def learn_from(self, teacher: WrappedModel, options: object) -> Self:
        """As `Taught.learn_from`, with the map between widths."""
        super().learn_from(teacher, options)
        both = (self.pretrained, teacher.pretrained)
        self.width, teacher_width = (int(model.config.get_text_config().hidden_size) for model in both)
        self.widen = None
        if self.options.teacher_weight and self.width != teacher_width:
            self.widen = nn.Linear(self.width, teacher_width, bias=False)
        return self

    def vectors_of(self, micro_batch: MicroBatch) -> Tensor:
        """Returns vectors [X, H]; in training appends the teacher's vectors, which are computed once per micro-batch."""
        vectors = super().vectors_of(micro_batch)
        if not (self.training and self.options.teacher_weight):
            return vectors
        if "taught" not in micro_batch:
            with torch.no_grad():
                hidden = self.teacher_on(vectors.device).encode(micro_batch)
                micro_batch["taught"] = pool(hidden, micro_batch, self.texts.pooling).to(vectors.dtype)
        return torch.cat([vectors, micro_batch["taught"]], 1)

    def loss(self, pairs: Pairs, temperature: Tensor) -> Tensor:
        """Returns the weighted sum of both losses over the rows of a batch, 0-dim; in evaluation only the pairs' loss."""
        vectors, teacher_vectors = pairs.vectors[..., : self.width], pairs.vectors[..., self.width :]
        loss = super().loss(pairs._replace(vectors=vectors), temperature)
        if not self.training:
            return loss
        loss = self.options.label_weight * loss
        if not self.options.teacher_weight:
            return loss
        there = pairs.text_ids != 0
        if self.pair_loss.kind in (*SCORED, MARGIN):
            there = there & ~pairs.scores.isnan()[:, None]
        apart = cosine_distance(vectors if self.widen is None else self.widen(vectors), teacher_vectors)
        of_rows = apart.masked_fill(~there, 0).sum(1) / there.sum(1).clamp(min=1)
        return loss + self.options.teacher_weight * of_rows.sum()

    def loss_parameters(self) -> list[nn.Parameter]:
        """Returns the parameters of the loss of pairs, and of the map between widths."""
        parameters = [] if self.widen is None else list(self.widen.parameters())
        return [*super().loss_parameters(), *parameters]
