"""An encoder whose weights stay as they are, and the features it makes of texts and of words.

Letters in shapes: D samples, T tokens, W words, H features.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tiryns.runner.data.labelled.examples import TaskSequences, tokenized
from tiryns.runner.data.labelled.token_classification import SentenceSequences
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch, tokenizer_arguments
from tiryns.runner.inference.passes import Computation, Report, passes
from tiryns.runner.models.embedding.folder import Embedding
from tiryns.runner.models.embedding.pooling import pooled
from tiryns.runner.models.positions import check_length
from tiryns.runner.models.wrapped import WrappedModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.labelled.finetuning import sample_numbers, token_types
from tiryns.runner.objectives.rows import IGNORED, Places, Shape
from tiryns.runner.widening import widened


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

    def __init__(self, pretrained: PreTrainedModel, embedding: Embedding) -> None:
        super().__init__(pretrained)
        self.features = embedding

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """The `features` [D, H] of texts as `embedding` says, or [W, H] of words, at least fp32."""
        hidden = widened(self.pretrained.base_model(**self.arguments(micro_batch))[0])
        if "word_positions" in micro_batch:
            return {"features": hidden.flatten(0, 1).index_select(0, micro_batch["word_positions"])}
        vectors = pooled(hidden, micro_batch, self.features.pooling)
        return {"features": functional.normalize(vectors, dim=-1) if self.features.normalised else vectors}


class FrozenEncoder:
    """An encoder in evaluation mode with its tokenizer; texts are cut off at `embedding.max_length` tokens."""

    def __init__(
        self,
        pretrained: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        embedding: Embedding,
        computation: Computation,
        progress: Callable[[str], Report] | None = None,
    ) -> None:
        """`progress` makes the report of a set by its name. Raises ValueError for texts too long for the model."""
        assert embedding.max_length is not None
        check_length(pretrained, embedding.max_length)
        self.tokenizer, self.embedding, self.progress = tokenizer, embedding, progress
        self.collator = FeatureCollator(**tokenizer_arguments(tokenizer))
        self.model = PooledEncoder(pretrained, embedding)
        self.computation = computation.set_up(self.collator, self.model)

    def facts(self) -> dict[str, object]:
        """How features are computed."""
        return {"pooling": self.embedding.pooling, **self.computation._asdict()}

    def features(self, sequences: TaskSequences, name: str = "") -> Tensor:
        """The features [D, H] of samples, or [W, H] of the words of sentences; zeros for words without a token."""
        size = len(sequences.word_labels if isinstance(sequences, SentenceSequences) else sequences)
        made = torch.zeros(size, self.model.pretrained.config.hidden_size)
        given = self.model, self.collator, sequences, self.computation
        for passed in passes(*given, report=self.progress and self.progress(name)):
            of_words = passed.micro_batch.get("words")
            places = torch.from_numpy(passed.samples) if of_words is None else of_words.cpu()
            made[places] = passed.output["features"].cpu()
        return made

    def embed(self, texts: Sequence[str], name: str = "", prompt: str | None = None) -> Tensor:
        """The features [D, H] of texts behind the prompt of that name; raises ValueError where there is none."""
        given = [self.embedding.prompt(prompt) + text for text in texts]
        cut = {"truncation": True, "max_length": self.embedding.max_length}
        ids = [encoding.ids for _, encoding in tokenized(self.tokenizer, given, **cut)]
        return self.features(TaskSequences(given, ids), name)
