"""What objectives of finetuning share: labels of samples, the head, checks, and fields of the micro-batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.objectives.base import Collator, FlatCollator
from tiryns.runner.objectives.rows.layout import IGNORED, Places, Shape, spread


def label_config(names: Sequence[str]) -> dict[str, Any]:
    """Fields of a model's config that name its labels."""
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


class ExampleLabels(FlatCollator):
    """An objective whose targets are labels of whole samples, in the place of tokens."""

    def flat_samples(self, tokenized: dict[str, Any], real: NDArray[np.bool_]) -> FlatSamples:
        """The real tokens, and the labels of the samples."""
        labels = torch.as_tensor(given_labels(self, tokenized)).numpy()
        return {**super().flat_samples(tokenized, real), "example_labels": labels}

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """No token is a target; the labels of the examples are `example_labels`."""
        labels = tokenized["example_labels"]
        if tokenized.get("filler"):
            labels = np.full_like(labels, IGNORED if labels.dtype.kind == "i" else np.nan)
        ids = tokenized["input_ids"]
        return {"input_ids": ids, "labels": np.full_like(ids, IGNORED), "example_labels": labels}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """`example_labels` [D] or [D, C], `samples` [D], and `token_type_ids` [D, T] for pairs."""
        return {
            "example_labels": torch.from_numpy(labelled["example_labels"]),
            "samples": sample_numbers(labelled),
            **token_types(labelled, places, shape),
        }

    def rows(self, labelled: FlatSamples, places: Places, shape: Shape) -> dict[str, Any]:
        """`input_ids` [B, T], and `labels` of the samples."""
        labels = torch.from_numpy(labelled["example_labels"])
        return super().rows(labelled, places, shape) | {"labels": labels}


class WordLabels(FlatCollator):
    """An objective whose targets are labels of words, by default at their first pieces."""

    packs = True
    auto = "AutoModelForTokenClassification"
    labels: list[str]

    def labels_of_tokens(self, flat: FlatSamples, name: str, labels: NDArray[Any]) -> FlatSamples:
        """Flat samples of a list with `labels` [N, ...] by this name, none for special tokens; each token is a word."""
        special = self.is_special[flat["input_ids"]].reshape(-1, *[1] * (labels.ndim - 1))
        own: Any = {
            name: np.where(special, IGNORED, labels),
            "first_pieces": np.ones(len(labels), dtype=bool),
        }
        return {**flat, **own}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """`samples` [D]; `word_positions` and `words` [W], place and word of each first piece; `read_positions` [R], the
        places with a target or a first piece.
        """
        is_first = labelled["first_pieces"] & (not labelled.get("filler"))
        first = np.flatnonzero(is_first)
        return {
            "samples": sample_numbers(labelled),
            "read_positions": torch.from_numpy(places[is_first | (labelled["labels"] != IGNORED)]),
            "word_positions": torch.from_numpy(places[first]),
            "words": torch.from_numpy(labelled["words"][first].astype(np.int64)),
        }

    def head_config(self) -> dict[str, Any]:
        """The names of the labels."""
        return label_config(self.labels)


def check_labelled(collator: Collator, objective: str) -> None:
    """Raises ValueError if the data has no labels."""
    if collator.label_column is None:
        raise ValueError(f"objective={objective} needs labelled data, such as data={objective}")


def given_labels(collator: Collator, tokenized: Mapping[str, Any]) -> Any:
    """The labels of padded rows: `labels`, or the label column. Raises ValueError without them."""
    for name in ("labels", str(collator.label_column)):
        if name in tokenized:
            return tokenized[name]
    raise ValueError(f"there are no {collator.label_column!r} in rows that have {', '.join(tokenized)}")


def sample_numbers(labelled: FlatSamples) -> torch.Tensor:
    """The numbers of the samples in their set [D], -1 for fillers."""
    samples = labelled["samples"]
    return torch.from_numpy(np.full_like(samples, -1) if labelled.get("filler") else samples)


def token_types(labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
    """`token_type_ids` [D, T] if the samples have them."""
    if "token_type_ids" not in labelled:
        return {}
    return {"token_type_ids": spread(labelled["token_type_ids"], places, shape, 0)}
