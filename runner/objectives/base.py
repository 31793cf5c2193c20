"""What every objective is: targets for the flat tokens of a micro-batch, then a layout of rows for the model."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedModel

from runner.data.keyed import mix64
from runner.errors import suggest

IGNORED = -100
"""The label of a token that is no target."""

Flat = dict[str, Any]
"""Tokenised samples end to end: `input_ids` int64 [N], `lengths` int32 [D], `keys` uint64 [D]; `filler` marks
samples that only keep a rank busy and must not count, `packed` says how to lay them out."""


COLLATORS = {
    "mlm": ("mlm", "MaskedLanguageModelingCollator"),
    "enhanced_mlm": ("enhanced_mlm", "EnhancedMaskedLanguageModelingCollator"),
    "diffusion": ("diffusion", "MaskedDiffusionCollator"),
    "classification": ("classification", "SequenceClassificationCollator"),
    "token_classification": ("token_classification", "TokenClassificationCollator"),
    "question_answering": ("question_answering", "QuestionAnsweringCollator"),
    "vision_language": ("vision_language", "VisionLanguageCollator"),
}
"""Module and class of each objective's collator, by its config name."""


class Collator(ABC):
    """Makes micro-batches of one objective; everything random in them follows from the samples' keys."""

    packs = False
    """Whether the objective's model takes packed rows as well."""

    def __init__(
        self,
        pad_token_id: int,
        mask_token_id: int,
        vocab_size: int,
        special_token_ids: Sequence[int],
        text_column: str,
        label_column: str | None,
        max_sequence_length: int,
        **foreign: Any,
    ) -> None:
        """Raises ValueError for a mask token outside the vocabulary, and for `foreign`: data for another objective."""
        if foreign:
            raise ValueError(
                f"{type(self).__name__} does not train on this data, which comes with {', '.join(foreign)}; "
                "choose an objective that fits the data, such as objective=classification for data=classification"
            )
        if not 0 <= mask_token_id < vocab_size:
            raise ValueError(f"mask_token_id {mask_token_id} is not in the vocabulary of {vocab_size}")
        self.pad_token_id, self.mask_token_id, self.vocab_size = pad_token_id, mask_token_id, vocab_size
        self.text_column, self.label_column, self.max_sequence_length = (
            text_column,
            label_column,
            max_sequence_length,
        )
        self.is_special = np.zeros(vocab_size, dtype=bool)
        self.is_special[[*special_token_ids, pad_token_id, mask_token_id]] = True
        self.ordinary_ids = np.flatnonzero(~self.is_special)

    @abstractmethod
    def compute_labels(self, tokenized: Flat) -> Flat:
        """`input_ids` [N] as the model shall see them and `labels` [N], -100 where there is nothing to predict.

        May add `target_weights` [N] float32, the factor of each target's loss, and what `further` lays out.
        """

    @abstractmethod
    def task_model(self, pretrained: PreTrainedModel) -> nn.Module:
        """The module that maps this objective's micro-batches to the sum of their losses."""

    def model_arguments(self) -> dict[str, Any]:
        """What this objective asks of the model's target beside the tokenizer: the head to build, for some."""
        return {}

    def settings(self) -> dict[str, Any]:
        """The objective's own settings by which predictions are made."""
        return {}

    def weight(self, labelled: Flat) -> float:
        """What the sum of the losses is divided by, added up over the global batch: the number of targets."""
        return float(np.count_nonzero(labelled["labels"] != IGNORED))

    def further(self, labelled: Flat, places: NDArray[np.int64], shape: tuple[int, int]) -> dict[str, Any]:
        """Further tensors of the micro-batch; token i of the flat samples lies at `places[i]` in rows of `shape`."""
        return {}

    def __call__(self, tokenized: Flat) -> dict[str, Any]:
        """The micro-batch of D samples: rows padded to the longest, T tokens, or all in one row of T tokens.

        `input_ids` and `labels` [D, T], or [1, T] if packed; `target_positions` and `targets` [M] for the M targets, row
        by row; `weight`; `sample_keys` int64 [D], by which samples are told apart; `tokens` (real), `padded_tokens`,
        `token_pairs` (within samples); `hash_low`, `hash_high`: see `runner.data.audit`.

        Padded rows have an `attention_mask` [D, T]; a packed one `position_ids` [1, T] that begin anew with each sample,
        `cu_seqlens` int32 [D + 1], where samples begin and the last one ends, and `max_length`, that of the longest.
        """
        labelled = {**tokenized, **self.compute_labels(tokenized)}
        if tokenized.get("filler"):
            labelled["labels"] = np.full_like(labelled["labels"], IGNORED)
        lengths = labelled["lengths"].astype(np.int64)
        longest = int(lengths.max())
        num_tokens = int(lengths.sum())
        if tokenized.get("packed"):
            places, shape = np.arange(num_tokens), (1, num_tokens)
            extent = packed_extent(lengths, places)
        else:
            places, shape = flat_places(lengths, longest), (len(lengths), longest)
            extent = {"attention_mask": spread(np.ones(num_tokens, dtype=np.int64), places, shape, 0)}
        is_target = labelled["labels"] != IGNORED
        batch: dict[str, Any] = {
            "input_ids": spread(labelled["input_ids"], places, shape, self.pad_token_id),
            **extent,
            "labels": spread(labelled["labels"], places, shape, IGNORED),
            "target_positions": torch.from_numpy(places[is_target]),
            "targets": torch.from_numpy(labelled["labels"][is_target]),
            "weight": self.weight(labelled),
            "sample_keys": torch.from_numpy(labelled["keys"].view(np.int64)),
        }
        if "target_weights" in labelled:
            batch["target_weights"] = torch.from_numpy(labelled["target_weights"][is_target])
        batch |= self.further(labelled, places, shape)
        counts = not tokenized.get("filler")
        low, high = sample_hashes(labelled) if counts else (0, 0)
        return batch | {
            "tokens": num_tokens if counts else 0,
            "padded_tokens": shape[0] * shape[1] if counts else 0,
            "token_pairs": int((lengths**2).sum()) if counts else 0,
            "hash_low": low,
            "hash_high": high,
        }


def flat_places(lengths: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Where each token of flat samples [N] lies in rows of `width`, counted row by row."""
    starts = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(np.arange(len(lengths)) * width - starts, lengths)


def packed_extent(lengths: NDArray[np.int64], places: NDArray[np.int64]) -> dict[str, Any]:
    """Where samples of `lengths` [D] lie in one row whose places [T] are counted from 0."""
    ends = np.cumsum(lengths)
    return {
        "position_ids": torch.from_numpy(places - np.repeat(ends - lengths, lengths))[None],
        "cu_seqlens": torch.from_numpy(np.concatenate([[0], ends]).astype(np.int32)),
        "max_length": int(lengths.max()),
    }


def sample_hashes(labelled: Flat) -> tuple[int, int]:
    """Two sums of 24-bit halves of a hash per sample, over its key, tokens and labels.

    Sums do not depend on how samples are grouped, so those of a global batch are the same for every cut; they stay
    below 2**53 and add up exactly in float64.
    """
    lengths = labelled["lengths"].astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    position = (np.arange(lengths.sum()) - np.repeat(starts, lengths)).astype(np.uint64)
    tokens = labelled["input_ids"].astype(np.uint64) + (labelled["labels"] + 101).astype(
        np.uint64
    ) * np.uint64(2**31)
    hashes = mix64(tokens ^ position << np.uint64(48))
    samples = mix64(np.add.reduceat(hashes, starts) ^ labelled["keys"])
    low = samples & np.uint64(2**24 - 1)
    high = samples >> np.uint64(40)
    return int(low.sum()), int(high.sum())


def get_collator_cls(objective: str) -> type[Collator]:
    """The collator class of an objective by its config name.

    Raises:
        ValueError: an unknown name; the message lists the known ones.
    """
    if objective not in COLLATORS:
        raise ValueError(
            f"unknown objective {objective!r}; there are: {', '.join(COLLATORS)}"
            + suggest(objective, COLLATORS)
        )
    module, name = COLLATORS[objective]
    return getattr(import_module(f".{module}", __package__), name)


def spread(
    values: NDArray[Any], places: NDArray[np.int64], shape: tuple[int, int], fill: int
) -> torch.Tensor:
    """Values of flat tokens [N] at their places in rows of `shape`, and `fill` elsewhere, int64."""
    rows = np.full(shape[0] * shape[1], fill, dtype=np.int64)
    rows[places] = values
    return torch.from_numpy(rows.reshape(shape))
