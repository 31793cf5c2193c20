"""Shared functions of the objectives of finetuning: the head, checks, and fields of the micro-batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from iolaus.runner.data.micro_batch import FlatSamples, MicroBatch
from iolaus.runner.objectives.base import Collator
from iolaus.runner.objectives.layout import Places, Shape, spread


def label_config(names: Sequence[str]) -> dict[str, Any]:
    """Fields of a model's config that name its labels."""
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


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


def check_length(pretrained: PreTrainedModel, max_sequence_length: int) -> None:
    """Raises ValueError if samples may be longer than the model can read."""
    from iolaus.runner.models.positions import longest_text

    longest = longest_text(pretrained)
    if longest is not None and longest < max_sequence_length:
        raise ValueError(
            f"data.max_length={max_sequence_length} is more than the {longest} tokens that this model can read"
        )


def sample_numbers(labelled: FlatSamples) -> torch.Tensor:
    """The numbers of the samples in their set [D], -1 for fillers."""
    samples = labelled["samples"]
    return torch.from_numpy(np.full_like(samples, -1) if labelled.get("filler") else samples)


def token_types(labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
    """`token_type_ids` [D, T] if the samples have them."""
    if "token_type_ids" not in labelled:
        return {}
    return {"token_type_ids": spread(labelled["token_type_ids"], places, shape, 0)}
