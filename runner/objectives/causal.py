"""Causal language modelling: each token is guessed from those before it, by a decoder or an encoder read causally."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel

from tiryns.conf.objective.causal import CausalLanguageModeling
from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows.layout import IGNORED


class CausalLanguageModelingCollator(FlatCollator):
    """Each ordinary token is a target, guessed at the token before it; the first token of a sample has none before it.

    An encoder is read causally, in padded and in packed rows, and stays the masked language model of transformers that it
    is; a decoder is trained as it is. `z_loss` counts in training alone (see `CausalLM`).

    Example:
        >>> collator = CausalLanguageModelingCollator(0, 4, 50, special_token_ids=[1, 2, 3])
        >>> batch = collator([{"input_ids": [2, 11, 12, 3]}, {"input_ids": [2, 21, 3]}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[2, 11, 12, 3], [2, 21, 3, 0]], [[11, 12, -100, -100], [21, -100, -100, -100]])
    """

    options: CausalLanguageModeling
    needs_mask = False
    packs = True
    nats_per_token = True
    built_with = ("z_loss",)

    __init__ = takes_options(CausalLanguageModeling)(FlatCollator.__init__)

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """The unchanged `input_ids` [N], and of each the ordinary token that follows as `labels` [N]."""
        ids = tokenized["input_ids"]
        ordinary = np.where(self.is_special[ids], IGNORED, ids)
        return {"input_ids": ids, "labels": one_earlier(ordinary, tokenized["lengths"])}

    def model_arguments(self) -> dict[str, Any]:
        """The head of a masked language model, or that of a decoder where an architecture is one."""
        from tiryns.runner.models.head import LANGUAGE_MODEL

        return {"head": LANGUAGE_MODEL}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model, read causally, with its head on the tokens that guess one."""
        from tiryns.runner.models.pretraining.causal import CausalLM

        return CausalLM(pretrained, self.options.z_loss)


def one_earlier(labels: NDArray[np.int64], lengths: NDArray[np.int32]) -> NDArray[np.int64]:
    """Labels [N] of samples of `lengths` [D], each moved to the token before; none where the sample ends.

    Example:
        >>> one_earlier(np.array([1, 2, 3, 4, 5]), np.array([3, 2])).tolist()
        [2, 3, -100, 5, -100]
    """
    moved = np.append(labels[1:], IGNORED)
    moved[np.cumsum(lengths) - 1] = IGNORED
    return moved
