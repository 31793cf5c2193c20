"""Vectors of texts and of words by an encoder with frozen weights, and the models that predict vectors of texts.

Letters in shapes: D samples, T tokens, W words, H features.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from tiryns.conf.registry import TASKS
from tiryns.conf.values import Settings
from tiryns.runner.data.labelled.examples import TaskSequences, encode
from tiryns.runner.data.labelled.token_classification import SentenceSequences
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch, tokenizer_arguments
from tiryns.runner.data.pairs.reader import Pair
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.inference.kinds import OfTexts, PredictOptions
from tiryns.runner.inference.labelled import Labels, saved_task
from tiryns.runner.inference.language.infill import Opened
from tiryns.runner.inference.passes import Computation, Report, as_trained, passes
from tiryns.runner.models.embedding.folder import PASSAGE, Embedding
from tiryns.runner.models.embedding.pooling import pool
from tiryns.runner.models.positions import check_length, longest_text
from tiryns.runner.models.weights import load_weights
from tiryns.runner.models.wrapped import WrappedModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.labelled.finetuning import sample_numbers, token_types
from tiryns.runner.objectives.rows import IGNORED, Places, Shape
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.tasks import get_task
from tiryns.runner.tasks.contrastive import Contrastive
from tiryns.runner.widening import widen


class FeatureCollator(FlatCollator):
    """Makes micro-batches without targets; for sentences they have the position of the first piece of each word."""

    packs = True

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns labels in which no token is a target."""
        ids = tokenized["input_ids"]
        return {"input_ids": ids, "labels": np.full_like(ids, IGNORED)}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns `samples` [D]; for pairs `token_type_ids` [D, T]; for sentences `word_positions` and `words` [W]."""
        fields: MicroBatch = {"samples": sample_numbers(labelled), **token_types(labelled, places, shape)}
        if "first_pieces" in labelled:
            first = np.flatnonzero(labelled["first_pieces"])
            fields["word_positions"] = torch.from_numpy(places[first])
            fields["words"] = torch.from_numpy(labelled["words"][first].astype(np.int64))
        return fields


class PooledEncoder(WrappedModel):
    """Makes vectors from an encoder's last hidden states: one for each text, or one at the first piece of each word."""

    inputs = (*WrappedModel.inputs, "token_type_ids")

    def __init__(self, pretrained: PreTrainedModel, embedding: Embedding) -> None:
        super().__init__(pretrained)
        self.features = embedding

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns `features` in at least fp32: [D, H] of texts, pooled as `embedding` says, or [W, H] of words."""
        hidden = widen(self.encode(micro_batch))
        if "word_positions" in micro_batch:
            return {"features": hidden.flatten(0, 1).index_select(0, micro_batch["word_positions"])}
        vectors = pool(hidden, micro_batch, self.features.pooling)
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
        """`progress` returns the `Report` of a named set. Raises ValueError if `embedding.max_length` is too long."""
        assert embedding.max_length is not None
        check_length(pretrained, embedding.max_length)
        self.tokenizer, self.embedding, self.progress = tokenizer, embedding, progress
        self.collator = FeatureCollator(**tokenizer_arguments(tokenizer))
        self.model = PooledEncoder(pretrained, embedding)
        self.computation = computation.set_up(self.collator, self.model)

    def facts(self) -> dict[str, object]:
        """Returns how features are computed."""
        return {"pooling": self.embedding.pooling, **self.computation._asdict()}

    def features(self, sequences: TaskSequences, name: str = "") -> Tensor:
        """Returns the features [D, H] of samples, or [W, H] of the words of sentences; zeros for words without tokens."""
        size = len(sequences.word_labels if isinstance(sequences, SentenceSequences) else sequences)
        features = torch.zeros(size, self.model.pretrained.config.hidden_size)
        arguments = self.model, self.collator, sequences, self.computation
        for batch in passes(*arguments, report=self.progress and self.progress(name)):
            of_words = batch.micro_batch.get("words")
            places = torch.from_numpy(batch.samples) if of_words is None else of_words.cpu()
            features[places] = batch.output["features"].cpu()
        return features

    def embed(self, texts: Sequence[str], name: str = "", prompt: str | None = None) -> Tensor:
        """Returns the features [D, H] of texts, each after the named prompt; ValueError for an unknown prompt."""
        full_texts = [self.embedding.prompt(prompt) + text for text in texts]
        longest = self.embedding.max_query_length if prompt == "query" else None
        cut = {"truncation": True, "max_length": longest or self.embedding.max_length}
        ids = [encoding.ids for _, encoding in encode(self.tokenizer, full_texts, **cut)]
        return self.features(TaskSequences(full_texts, ids), name)


class Vectors(OfTexts):
    """An encoder with pooling and prompts, like `encode` of sentence-transformers but computed as in the run."""

    name, at_once = "vectors", 2048  # a multiple of the samples that an evaluation sorts by length

    def __init__(self, run: str, embedding: Embedding, parts: Opened, changes: Settings) -> None:
        super().__init__(changes)
        tokenizer = parts.tokenizer
        encoder, _ = load_weights(AutoModel, model_folder(run))  # without a pooler, where it has none
        data = (saved_task(run) or {"data": {}})["data"]  # the folder has one length for queries and passages
        longest, of_query = data.get("max_length") or embedding.max_length, data.get("max_query_length")
        longest = min(filter(None, (longest, tokenizer.model_max_length, longest_text(encoder))))
        embedding = embedding._replace(max_length=longest, max_query_length=of_query)
        self.model = FrozenEncoder(encoder, tokenizer, embedding, as_trained(run))
        self.computation = self.model.computation

    def predict_texts(self, texts: list[str], options: PredictOptions, number: int) -> list[PredictionRow]:
        """Returns the `embedding` of each text, a list of numbers."""
        width = self.model.model.pretrained.config.hidden_size
        if options.dimensions is not None and not 1 <= options.dimensions <= width:
            raise ValueError(
                f"dimensions={options.dimensions}: expected 1 to {width}, the size of the vectors"
            )
        self.model.computation = self.computation.limit(options.tokens or None)
        vectors = self.model.embed(texts, prompt=options.prompt)[:, : options.dimensions] if texts else []
        return [{"embedding": vector.tolist()} for vector in vectors]


def encoding_task(run: str) -> Contrastive | None:
    """Returns the task of a run whose texts have several vectors or a sparse vector; None for other models."""
    settings = saved_task(run)
    task = get_task(settings["data"]["task"]) if settings and settings["data"]["task"] in TASKS else None
    return task if isinstance(task, Contrastive) and not task.single else None


class Encoded(OfTexts):
    """A model whose texts have several vectors or a sparse vector; it reads each text as a query or as a passage."""

    name, at_once = "vectors", 2048  # a multiple of the samples that an evaluation sorts by length

    def __init__(self, run: str, task: Contrastive, parts: Opened, changes: Settings) -> None:
        super().__init__(changes)
        self.trained, self.task = Labels(run, task, parts), task
        self.model = self.trained.model

    def predict_texts(self, texts: list[str], options: PredictOptions, number: int) -> list[PredictionRow]:
        """Returns the `embedding` of each text; raises ValueError for an unknown prompt, and if `dimensions` is set."""
        if options.prompt not in (None, "query", *PASSAGE):
            raise ValueError(f"prompt={options.prompt} is none of the model's: expected query or passage")
        if options.dimensions is not None:
            raise ValueError("dimensions: vectors of this model cannot be cut")
        if not texts:
            return []
        column = 0 if options.prompt == "query" else 1
        both = [(text, "") if column == 0 else ("", text) for text in texts]
        pairs = [Pair("", *each, negatives=[], score=float("nan"), match=None, where="") for each in both]
        kind, rows = self.trained, [PredictionRow()] * len(texts)
        length = kind.collator.max_sequence_length
        sequences = kind.reader.tokenize(pairs, kind.tokenizer, length, training=False)
        computation = kind.computation.limit(options.tokens or None)
        for batch in passes(kind.model, kind.collator, sequences, computation):
            vectors = batch.output["rows"][:, column].cpu()
            for place, vector in zip(batch.micro_batch["samples"].tolist(), vectors, strict=True):
                rows[place] = {"embedding": self.task.format_vector(vector, kind.tokenizer)}
        return rows
