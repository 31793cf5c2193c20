"""Causal language modelling, which predicts each token from the tokens before it, alone or mixed with masked samples."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from tiryns.conf.objective.pretraining import CausalLanguageModeling, HybridLanguageModeling
from tiryns.runner.data.micro_batch import Batch, FlatSamples, MicroBatch
from tiryns.runner.models.packed.causal import causal_parts
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.mlm import MaskedTargetsCollator
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import IGNORED, Places, Shape
from tiryns.runner.order.keyed import mix64, uniform


class CausalLanguageModelingCollator(FlatCollator):
    """Makes each ordinary token a target, predicted at the token before it; a sample's first token is no target.

    An encoder reads text causally, in padded and packed rows, and keeps its class, a masked language model of
    transformers. A decoder is trained unchanged. `z_loss` has an effect in training only (see `CausalLM`).

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
        """Returns unchanged `input_ids` [N], and as `labels` [N] the next token; -100 if this is special or missing."""
        ids = tokenized["input_ids"]
        ordinary = np.where(self.is_special[ids], IGNORED, ids)
        return {"input_ids": ids, "labels": one_earlier(ordinary, tokenized["lengths"])}

    def model_arguments(self) -> dict[str, Any]:
        """Returns the head of a masked language model, or the head of a decoder if the architecture is a decoder."""
        from tiryns.runner.models.head import LANGUAGE_MODEL

        return {"head": LANGUAGE_MODEL}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the causal model, with its head only on tokens that predict a target."""
        from tiryns.runner.models.pretraining.causal import CausalLM

        return CausalLM(pretrained, self.options.z_loss)


def one_earlier(labels: NDArray[np.int64], lengths: NDArray[np.int32]) -> NDArray[np.int64]:
    """Returns labels [N] moved to the token before, in samples of `lengths` [D]; -100 at the last token of a sample.

    Example:
        >>> one_earlier(np.array([1, 2, 3, 4, 5]), np.array([3, 2])).tolist()
        [2, 3, -100, 5, -100]
    """
    shifted_labels = np.append(labels[1:], IGNORED)
    shifted_labels[np.cumsum(lengths) - 1] = IGNORED
    return shifted_labels


WAY_SALT = np.uint64(0x7761_7973)
"""Salt for choosing causal samples by the key of a global batch; other random choices have other salts."""


class HybridLanguageModelingCollator(MaskedTargetsCollator):
    """Trains a `causal_share` of each global batch's samples causally on next tokens, and the others on masked tokens.

    B * `causal_share` of B samples are causal; the batch's key rounds this number up or down, so that it is exact on
    average. Key and index in the batch decide which samples are causal. With `shifted` each masked token is predicted
    at the token before it, like a next token (masked next-token prediction). The loss is (1 - `causal_share`) times the
    mean over masked targets plus `causal_share` times the mean over causal targets of the global batch; a mean
    without targets counts as 0. In evaluation each sample is read twice: with masks and causally.

    Tokens are masked as in `MaskedLanguageModelingCollator`, by the same settings.

    Example:
        >>> collator = HybridLanguageModelingCollator(0, 4, 50, causal_share=1.0, special_token_ids=[1, 2, 3])
        >>> batch = collator([{"input_ids": [2, 11, 12, 3]}, {"input_ids": [2, 21, 3]}])
        >>> batch["labels"].tolist(), batch["causal"].tolist()
        ([[11, 12, -100, -100], [21, -100, -100, -100]], [True, True])
    """

    options: HybridLanguageModeling
    nats_per_token = True
    built_with = ("shifted", "z_loss")

    __init__ = takes_options(HybridLanguageModeling)(MaskedTargetsCollator.__init__)

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns `input_ids` [N], masked or not, `labels` [N], and which samples are `causal` [D].

        In evaluation there are two copies of each sample, the masked ones first.
        """
        lengths, keys = tokenized["lengths"], tokenized["keys"]
        masked_samples = super().flat_labels(tokenized)
        ids, labels = tokenized["input_ids"], masked_samples["labels"]
        following = one_earlier(np.where(self.is_special[ids], IGNORED, ids), lengths)
        labels = one_earlier(labels, lengths) if self.options.shifted else labels
        if tokenized.get("evaluation"):
            return {
                "input_ids": np.concatenate([masked_samples["input_ids"], ids]),
                "labels": np.concatenate([labels, following]),
                "lengths": np.tile(lengths, 2),
                "keys": np.tile(keys, 2),
                "causal": np.repeat([False, True], len(lengths)),
            }
        causal = self.causal_samples(tokenized)
        of_tokens = np.repeat(causal, lengths)
        return {
            "input_ids": np.where(of_tokens, ids, masked_samples["input_ids"]),
            "labels": np.where(of_tokens, following, labels),
            "causal": causal,
        }

    def causal_samples(self, tokenized: FlatSamples) -> NDArray[np.bool_]:
        """Returns which samples are read causally, bool [D]."""
        size = tokenized.get("batch_size", len(tokenized["lengths"]))
        places = tokenized.get("batch_places", np.arange(size))
        key = mix64(np.array([tokenized.get("batch_key", 0)], dtype=np.uint64) ^ WAY_SALT)
        number = int(size * self.options.causal_share + float(uniform(key)[0]))
        order = np.argsort(mix64(np.arange(size, dtype=np.uint64) ^ key), kind="stable")
        is_causal = np.zeros(size, dtype=bool)
        is_causal[order[:number]] = True
        return is_causal[places]

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns which samples and which targets are causal, the causal share, and the denominators of both losses."""
        causal, lengths = labelled["causal"], labelled["lengths"].astype(np.int64)
        targets = np.repeat(causal, lengths)[labelled["labels"] != IGNORED]
        count = float(np.count_nonzero(targets))
        return {
            "causal": causal_parts(lengths, causal, bool(labelled.get("packed"))),
            "causal_targets": torch.from_numpy(targets),
            "causal_share": self.options.causal_share,
            "denominators": {"mlm_targets": len(targets) - count, "clm_targets": count},
        }

    def rows(self, labelled: FlatSamples, places: Places, shape: Shape) -> Batch:
        """Returns `input_ids` and `labels` [B, T], and which rows are `causal` [B]."""
        return super().rows(labelled, places, shape) | {"causal": torch.from_numpy(labelled["causal"])}

    def targets_per_token(self, progress: float) -> float:
        """Returns the mean over causal samples, of which each token is a target, and masked samples."""
        causal = self.options.causal_share
        return causal + (1 - causal) * super().targets_per_token(progress)

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the model, which reads samples causally or in both directions, with its head on the targets only."""
        from tiryns.runner.models.pretraining.causal import HybridLM

        return HybridLM(pretrained, self.options)
