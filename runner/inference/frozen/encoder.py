"""An encoder whose weights stay as they are, and the features it makes of texts and of words.

Letters in shapes: D samples, T tokens, W words, H features.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from iolaus.runner.data.evaluated import EVALUATED_AT_ONCE
from iolaus.runner.data.labelled.examples import TaskSequences, tokenized
from iolaus.runner.data.micro_batch import FlatSamples, MicroBatch, tokenizer_arguments
from iolaus.runner.inference.passes import Computation, Passed, Report, passes
from iolaus.runner.models.packed.rows import unpacked
from iolaus.runner.models.wrapped import WrappedModel
from iolaus.runner.objectives.base import FlatCollator
from iolaus.runner.objectives.finetuning import check_length, sample_numbers, token_types
from iolaus.runner.objectives.layout import IGNORED, Places, Shape


class FeatureCollator(FlatCollator):
    """Lays out samples without targets; of sentences also the places of their words' first pieces."""

    packs = True

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """No token is a target."""
        ids = tokenized["input_ids"]
        return {"input_ids": ids, "labels": np.full_like(ids, IGNORED)}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """`samples` [D], `token_type_ids` [D, T] of pairs; of sentences `word_positions` and `words` [W]."""
        fields: MicroBatch = {"samples": sample_numbers(labelled), **token_types(labelled, places, shape)}
        if "first_pieces" in labelled:
            first = np.flatnonzero(labelled["first_pieces"])
            fields["word_positions"] = torch.from_numpy(places[first])
            fields["words"] = torch.from_numpy(labelled["words"][first].astype(np.int64))
        return fields


class PooledEncoder(WrappedModel):
    """The hidden states of an encoder's last layer: one vector for each text, or the words' first pieces."""

    inputs = (*WrappedModel.inputs, "token_type_ids")

    def __init__(self, pretrained: PreTrainedModel, pooling: str) -> None:
        super().__init__(pretrained)
        self.pooling = pooling

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """The `features` [D, H] of texts by `mean` (of all tokens) or `cls` (the first), or [W, H] of words, fp32."""
        hidden = self.pretrained.base_model(**self.arguments(micro_batch))[0].float()
        if "word_positions" in micro_batch:
            return {"features": hidden.flatten(0, 1).index_select(0, micro_batch["word_positions"])}
        if "cu_seqlens" in micro_batch:
            mask = unpacked(torch.ones_like(micro_batch["input_ids"]), micro_batch, 0)
            hidden = unpacked(hidden, micro_batch, 0.0)
        else:
            mask = micro_batch["attention_mask"]
        if self.pooling == "cls":
            return {"features": hidden[:, 0]}
        real = mask.to(hidden.dtype)
        return {"features": torch.einsum("bth,bt->bh", hidden, real) / real.sum(1, keepdim=True)}


class FrozenEncoder:
    """An encoder in evaluation mode with its tokenizer; texts are cut off at `max_length` tokens."""

    def __init__(
        self,
        pretrained: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        pooling: str,
        computation: Computation,
        progress: Callable[[str], Report] | None = None,
    ) -> None:
        """`progress` makes the report of a set by its name. Raises ValueError for texts too long for the model."""
        check_length(pretrained, max_length)
        self.tokenizer, self.max_length, self.progress = tokenizer, max_length, progress
        self.collator = FeatureCollator(**tokenizer_arguments(tokenizer))
        self.model = PooledEncoder(pretrained, pooling)
        self.computation = computation.set_up(self.collator, self.model)

    def describe(self) -> str:
        """Architecture and sizes in a few words."""
        return self.model.describe()

    def facts(self) -> dict[str, Any]:
        """How features are computed."""
        return {"pooling": self.model.pooling, **self.computation._asdict()}

    def features(self, sequences: TaskSequences, name: str = "") -> Tensor:
        """The features [D, H] of samples, or [W, H] of the words of sentences; zeros for words without a token."""
        words = getattr(sequences, "word_labels", None)
        size = len(sequences) if words is None else len(words)
        made = torch.zeros(size, self.model.pretrained.config.hidden_size)
        report = self.progress(name) if self.progress else None
        given = self.model, self.collator, sequences, self.computation
        for passed in passes(*given, seed=0, samples_at_once=EVALUATED_AT_ONCE, report=report):
            made[_places(passed)] = passed.output["features"].cpu()
        return made

    def embed(self, texts: Sequence[str], name: str = "") -> Tensor:
        """The features [D, H] of texts."""
        ids = [
            encoding.ids
            for _, encoding in tokenized(self.tokenizer, texts, truncation=True, max_length=self.max_length)
        ]
        return self.features(TaskSequences(texts, ids), name)


def _places(passed: Passed) -> Tensor:
    """The numbers of a micro-batch's words, or of its samples, in their set."""
    words = passed.micro_batch.get("words")
    return torch.from_numpy(passed.samples) if words is None else words.cpu()
