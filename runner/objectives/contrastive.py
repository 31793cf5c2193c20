"""Contrastive training: every text of a row becomes a document of its own.

Letters in shapes: D rows, X texts of all rows, N tokens.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tiryns.conf.objective.contrastive import MARGINS, SCORED, Contrastive, check_contrastive
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.data.pairs.reader import Pair, PairSequences
from tiryns.runner.evaluation.similarity import COSINE, DotProduct
from tiryns.runner.models.embedding.folder import Embedding, prompts_of
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.labelled import finetuning
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import IGNORED, Places, Shape
from tiryns.runner.order.keyed import token_bits
from tiryns.runner.order.ranges import ranges

if TYPE_CHECKING:
    from tiryns.runner.models.embedding.losses import PairLoss


class PairsCollator(FlatCollator):
    """The base class of objectives that learn vectors from pairs, with a loss over the global batch as a whole.

    A sample is a row: a query, a passage that belongs to it, and hard negatives. `texts_per_row` is the number of texts
    of the longest row. The data puts the `prompts` before queries and passages; the model is exported with
    them. `__init__` raises ValueError for rows of `pair_sets` that do not fit the loss. A subclass passes its class of
    settings to `takes_options` for `__init__`, and returns the task model in `task_model`.

    Example:
        >>> class ByDotProduct(PairsCollator):
        ...     similarity = DotProduct()
        ...     __init__ = takes_options(Contrastive, text_column="query")(PairsCollator.__init__)
        >>> ByDotProduct(0, 4, 50).pair_loss.similarity.name
        'dot'
    """

    packs = True
    options: Any
    similarity: ClassVar[DotProduct] = COSINE
    """How a query and a passage are scored by their vectors."""
    predicts_with: ClassVar[tuple[str, ...]] = (
        "loss", "temperature", "learn_temperature", "symmetric", "false_negative_margin", "max_score",
        "validation_batch_size",
    )  # fmt: skip

    def __init__(
        self,
        texts_per_row: int = 2,
        prompts: tuple[str, str] = ("", ""),
        pair_sets: Sequence[PairSequences] = (),
        tokenizer: PreTrainedTokenizerBase | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        self.tokenizer, self.texts_per_row, self.prompts = tokenizer, texts_per_row, prompts
        self.loss, self.learn_temperature = self.options.loss, self.options.learn_temperature
        check_contrastive(vars(self.options), self.label_column, texts_per_row > 2)
        for rows in pair_sets:
            self._check_rows(rows.scores, rows.text_counts, rows.examples)

    @property
    def dimensions(self) -> list[int]:
        """Sizes that vectors are cut to, each with metrics of its own; empty by default."""
        return []

    @property
    def pair_loss(self) -> "PairLoss":
        """The loss of a batch of pairs."""
        from tiryns.runner.models.embedding.losses import PairLoss

        option = self.options
        return PairLoss(self.loss, option.symmetric, option.false_negative_margin, similarity=self.similarity)

    @property
    def texts(self) -> Embedding:
        """How texts become vectors, for an exported folder; only a `ContrastiveModel` uses pooling and unit length."""
        prompts, longest = prompts_of(*self.prompts), self.max_sequence_length
        return Embedding("mean", True, prompts, None, longest, self.similarity.name)

    @property
    def parts(self) -> tuple["PairLoss", Any, Embedding, int]:
        """The arguments of a `PairsModel` after its encoder."""
        return self.pair_loss, self.options, self.texts, self.texts_per_row

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns the tokens without targets."""
        ids = tokenized["input_ids"]
        return {"input_ids": ids, "labels": np.full_like(ids, IGNORED)}

    def micro_batch(self, tokenized: FlatSamples) -> MicroBatch:
        """Returns the X texts of D rows, each a document with its own key; ValueError for scores out of range."""
        counts = tokenized["text_counts"]
        self._check_rows(tokenized["scores"], counts)
        texts: dict[str, Any] = {
            "lengths": tokenized["text_lengths"],
            "keys": token_bits(tokenized["keys"], counts),
            "scores": tokenized["scores"] / np.float32(self.options.max_score),
        }
        return super().micro_batch({**tokenized, **texts})  # type: ignore[typeddict-item]

    def _check_rows(
        self, scores: NDArray[np.floating], counts: NDArray[np.int64], examples: Sequence[Pair] = ()
    ) -> None:
        """Raises ValueError for counts of texts and scores [D] that do not fit the loss; `examples` name the place."""
        if self.loss == "cosine":
            wrong = np.flatnonzero(np.abs(scores.astype(np.float32) / np.float32(self.options.max_score)) > 1)
            problem = "a score of {:g}{} is no cosine, from -1 to 1; set objective.max_score to the largest, such as 5"
        elif self.loss in MARGINS:
            wrong = np.flatnonzero(~np.isnan(scores) & (counts < 3))
            problem = "a row has a margin of {:g}{} and no hard negative: leave it out, or fill in data.negative_columns"
        else:
            return
        if len(wrong):
            first = int(wrong[0])
            where = f" ({examples[first].where})" if len(examples) else ""
            raise ValueError(f"objective.loss={self.loss}: {problem.format(float(scores[first]), where)}")

    def weight(self, labelled: FlatSamples) -> float:
        """Returns the number of rows; for a loss that needs scores, the number of rows with a score."""
        if labelled.get("filler"):
            return 0.0
        if self.loss in (*SCORED, *MARGINS):
            return float(np.count_nonzero(~np.isnan(labelled["scores"])))
        return float(len(labelled["text_counts"]))

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns `text_rows`, `text_columns` and `text_ids` of the texts [X], row fields [D], and `batch_size`."""
        counts, size, filler = labelled["text_counts"], labelled["batch_size"], labelled.get("filler")
        ids, batch_places = labelled["text_ids"], labelled["batch_places"]
        return {
            "text_rows": torch.from_numpy(np.repeat(np.arange(len(counts)), counts)),
            "text_columns": torch.from_numpy(ranges(np.zeros_like(counts), counts)),
            "text_ids": torch.from_numpy(np.zeros_like(ids) if filler else ids),
            "match_ids": torch.from_numpy(labelled["match_ids"]),
            "scores": torch.from_numpy(labelled["scores"]),
            "batch_places": torch.from_numpy(np.full_like(batch_places, size) if filler else batch_places),
            "batch_size": size,
            "samples": finetuning.sample_numbers(labelled),
        }

    @property
    def batch_figure_names(self) -> tuple[str, ...]:
        """The names of the metrics that `batch_figures` returns."""
        return ("loss", "batch_accuracy", "batch_mrr") if self.loss == "infonce" else ("loss",)

    def batch_figures(
        self,
        vectors: NDArray[np.float32],
        text_ids: NDArray[np.int64],
        match_ids: NDArray[np.int64],
        scores: NDArray[np.float64],
        temperature: float,
    ) -> dict[str, float]:
        """Returns mean metrics over rows of K vectors [D, K, H], in batches of `validation_batch_size`: the `loss`, and
        for `infonce` how often a query ranks its own passage first, and the reciprocal rank of this passage.
        """
        from tiryns.runner.models.embedding.losses import Pairs, ranks

        arrays = (vectors, text_ids, match_ids, scores / self.options.max_score)
        rows, totals = Pairs(*map(torch.from_numpy, arrays)), np.zeros(len(self.batch_figure_names))
        for start in range(0, len(vectors), size := self.options.validation_batch_size):
            batch = rows.select(slice(start, start + size))
            figures = [self.pair_loss(batch, torch.tensor(temperature))]
            if self.loss == "infonce":
                own_ranks = ranks(batch, self.similarity).double()
                figures += [(own_ranks == 1).sum(), (1 / own_ranks).sum()]
            totals += [float(one) for one in figures]
        count = len(vectors) if self.loss == "infonce" else np.count_nonzero(~np.isnan(scores))
        return dict(zip(self.batch_figure_names, (totals / max(count, 1)).tolist(), strict=True))


class ContrastiveCollator(PairsCollator):
    """Vectors of texts from pairs, with hard negatives or with scores.

    `loss` is `infonce`, `cosent` or `cosine` (see `tiryns.runner.models.embedding.losses`), `pooling` turns hidden
    states into a vector, `dimensions` are the sizes for Matryoshka representation learning; exports use `normalised`.

    Example:
        >>> texts = {"text_counts": np.array([2]), "text_lengths": np.array([3, 2]), "text_ids": np.array([5, 6])}
        >>> row = {"match_ids": np.array([0]), "scores": np.array([np.nan]), "samples": np.array([0])}
        >>> flat = {"input_ids": np.array([2, 7, 3, 2, 3]), "lengths": np.array([5]), "keys": np.array([1], np.uint64)}
        >>> place = {"batch_places": np.array([0]), "batch_size": 1}
        >>> batch = ContrastiveCollator(0, 4, 50)({**texts, **row, **flat, **place})
        >>> batch["input_ids"].tolist(), batch["text_columns"].tolist()
        ([[2, 7, 3], [2, 3, 0]], [0, 1])
    """

    auto = "AutoModel"
    options: Contrastive
    predicts_with = (*PairsCollator.predicts_with, "pooling", "normalised", "dimensions", "dimension_weights")
    built_with = tuple(
        f.name for f in fields(Contrastive) if f.name not in ("_target_", "validation_batch_size")
    )

    __init__ = takes_options(Contrastive, text_column="query")(PairsCollator.__init__)

    @property
    def dimensions(self) -> list[int]:
        return list(self.options.dimensions or [])

    @property
    def pair_loss(self) -> "PairLoss":
        """The loss of a batch of pairs, with vectors cut to each size."""
        weights = tuple(self.options.dimension_weights or ())
        return super().pair_loss._replace(dimensions=tuple(self.dimensions), weights=weights)

    @property
    def texts(self) -> Embedding:
        """How texts are read and pooled into vectors."""
        pooling, unit_length = self.options.pooling or "mean", self.options.normalised is not False
        return super().texts._replace(pooling=pooling, normalised=unit_length)

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the encoder with its pooling and the loss; with a `teacher` it also learns the teacher's vectors."""
        from tiryns.runner.models.embedding.contrastive import ContrastiveModel

        if self.options.teacher is None:
            return ContrastiveModel(pretrained, *self.parts)
        from tiryns.runner.models.distillation.teacher import load_teacher
        from tiryns.runner.models.distillation.vectors import DistilledVectors
        from tiryns.runner.models.wrapped import WrappedModel

        arguments = (str(self.auto), self.tokenizer)
        teacher = load_teacher(self.options.teacher, *arguments, max_length=self.max_sequence_length)
        return DistilledVectors(pretrained, *self.parts).learn_from(WrappedModel(teacher), self.options)
