"""Measures frozen features, for each kind of data: probes of labels, cosines of pairs, ranks of passages."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tiryns.runner.data.labelled.finetuning import FinetuningData
from tiryns.runner.data.labelled.labels import REGRESSION, SINGLE
from tiryns.runner.data.labelled.measured import MinimalPairs, MtebTasks, RetrievalPairs, RetrievalSet
from tiryns.runner.evaluation.classifiers import fit_neighbours, fit_probe
from tiryns.runner.evaluation.files import Entry, PredictionRow
from tiryns.runner.evaluation.kinds.labels import ClassificationPredictions, NumberPredictions
from tiryns.runner.evaluation.kinds.words import TokenPredictions
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.evaluation.ranks import DEEP, cosines, rank
from tiryns.runner.evaluation.statistics.intervals import bootstrap
from tiryns.runner.inference.evaluated import entry_with_intervals
from tiryns.runner.inference.language.likelihood import entry_of_pairs, rows_of_pairs
from tiryns.runner.inference.passes import device_here
from tiryns.runner.inference.vectors import FrozenEncoder

MOST_WORDS = 20_000
"""Most words that a probe is fitted to. Of a larger set it uses every n-th word, with the smallest n that suffices."""

Scores = Callable[[Tensor], Tensor]
"""A function from features [M, H] to the scores of classes [M, C]."""


class Probed(NamedTuple):
    """The measurements on each set, by name (`val/validation`, `test/test`)."""

    task: str
    monitor: str
    """The main metric."""
    sets: dict[str, Entry]
    """Entries of `evaluation.json`."""
    predictions: Mapping[str, Iterable[PredictionRow]]
    """The lines of each set in `predictions.jsonl`."""
    settings: Mapping[str, float] = {}
    """The values chosen on the validation examples."""

    def figures(self) -> dict[str, float]:
        """Returns the metrics of all sets, by set and name."""
        return {
            f"{name}/{key}": v for name, entry in self.sets.items() for key, v in entry["metrics"].items()
        }

    def objective(self) -> str:
        """Returns the main metric's key (`val/validation/accuracy`), of validation first; ValueError without labels."""
        keys = [f"{name}/{self.monitor}" for name in sorted(self.sets, reverse=True)]
        if key := next((key for key in keys if key in self.figures()), None):
            return key
        raise ValueError(
            f"no example of {', '.join(self.sets)} has a label: name the column by data.label_column"
        )


def probe(data: FinetuningData | RetrievalPairs | MtebTasks | MinimalPairs, encoder: Any) -> Probed:
    """Measures a frozen encoder on prepared data; for minimal pairs `encoder` is a `PairScorer`.

    Texts or pairs with one label: a linear probe and nearest neighbours; words with labels: a linear probe; pairs with
    numbers: the cosine of the two texts; queries with passages: ranks by cosine; tasks of mteb: the metrics of mteb;
    minimal pairs: how often the right sentence is the more likely one.

    Raises:
        ValueError: this kind of data is not supported, or a probe has no validation examples to choose its settings by.
    """
    if isinstance(data, RetrievalPairs):
        return _rank_passages(data.sets, encoder)
    if isinstance(data, MtebTasks):
        from tiryns.runner.inference.frozen.mteb_tasks import entries_of

        entries = entries_of(data.tasks, encoder)
        return Probed("mteb", next(iter(next(iter(entries.values()))["metrics"])), entries, {})
    if isinstance(data, MinimalPairs):
        scores = {name: (pairs, encoder.scores(pairs, name)) for name, pairs in data.sets.items()}
        entries = {name: entry_of_pairs(*both) for name, both in scores.items()}
        lines = {name: rows_of_pairs(*both) for name, both in scores.items()}
        return Probed("minimal_pairs", "accuracy", entries, lines)
    task, kind = data.task_name, getattr(data.train_set, "problem_type", None)
    if task == "classification" and kind == SINGLE:
        return _probe_linearly(data, encoder, of_words=False)
    if task == "token_classification":
        return _probe_linearly(data, encoder, of_words=True)
    if kind == REGRESSION and data.settings.pair_column:
        return _compare_pairs(data, encoder)
    subject = "several labels" if task == "classification" else str(task)
    subject = "numbers without a second text, which data.pair_column names" if kind == REGRESSION else subject
    raise ValueError(
        f"mode=probe measures texts, pairs or words with one label each, and pairs with numbers, not {subject}"
    )


def _probe_linearly(data: Any, encoder: FrozenEncoder, of_words: bool) -> Probed:
    """Fits a linear probe on the features of texts or of words, and for texts also nearest neighbours.

    Chooses the penalty and the number of neighbours by the accuracy on validation examples or words that have a label;
    the label with the largest score is the prediction. Afterwards labels of words are decoded as in training, with
    constraints on tags. Raises ValueError without a validation set.
    """
    sets, features = {"train": data.train_set, **data.evaluated_sets}, {}
    for name, data_set in sets.items():
        if of_words or data.settings.pair_column:
            features[name] = encoder.features(data_set, name).to(device_here())
        else:  # after the model's default prompt
            features[name] = encoder.embed([e.text for e in data_set.examples], name).to(device_here())
    numbers = {name: data_set.word_labels if of_words else data_set.labels for name, data_set in sets.items()}
    labels = {name: torch.from_numpy(array).to(device_here()) for name, array in numbers.items()}
    validation_names = [name for name in data.evaluated_sets if name.startswith("val/")]
    if not validation_names:
        raise ValueError(
            "mode=probe chooses its settings on validation examples, and there are none: set data.validation, or "
            "data.validation_documents above 0"
        )

    def accuracy(scores: Scores) -> float:
        right = [(scores(features[n]).argmax(1) == labels[n])[labels[n] >= 0] for n in validation_names]
        return float(torch.cat(right).double().mean())

    training = features["train"], labels["train"]
    if of_words:
        there = torch.from_numpy(data.train_set.has_pieces).nonzero()[:, 0]
        there = there[:: -(-len(there) // MOST_WORDS)].to(device_here())
        training = features["train"][there], labels["train"][there]
    size = len(data.train_set.names)
    linear = fit_probe(*training, size, lambda one: accuracy(one.logits))
    settings: dict[str, float] = {"linear_penalty": linear.penalty}
    knn = None if of_words else fit_neighbours(*training, size, lambda one: accuracy(one.votes))
    entries, lines = dict[str, Entry](), {}
    for name, data_set in data.evaluated_sets.items():
        empty = TokenPredictions(data_set, True) if of_words else ClassificationPredictions(data_set)
        predictions, entries[name] = _measure(empty, linear.logits(features[name]))
        lines[name] = predictions.rows()
        if knn is not None:
            settings["neighbours"] = knn.number
            _, votes = _measure(ClassificationPredictions(data_set), knn.votes(features[name]).double())
            for part in ("metrics", "intervals"):
                entries[name][part] |= {
                    f"knn_{n}": votes[part][n] for n in ("accuracy", "macro_f1") if n in votes[part]
                }
    return Probed(data.task_name, predictions.monitor, entries, lines, settings)


def _compare_pairs(data: Any, encoder: FrozenEncoder) -> Probed:
    """Compares the cosine of the features of a pair's texts with the pair's number."""
    predictions, entries = {}, {}
    for name, data_set in data.evaluated_sets.items():
        sides = [[e.text for e in data_set.examples], [e.pair for e in data_set.examples]]
        first, second = (encoder.embed(texts, name) for texts in sides)
        scores = cosines(first, second)[:, None]
        number_predictions, entries[name] = _measure(NumberPredictions(data_set), scores)
        predictions[name] = number_predictions.rows()
        for part in ("metrics", "intervals"):
            entries[name][part].pop("mse", None)  # a cosine has another unit
    return Probed("similarity", "spearman", entries, predictions)


def _rank_passages(sets: Mapping[str, RetrievalSet], encoder: FrozenEncoder) -> Probed:
    """Ranks all passages of a set for each query by their cosine."""
    predictions, entries = {}, {}
    for name, data_set in sets.items():
        queries = encoder.embed(data_set.queries, f"{name}, queries", prompt="query")
        passages = encoder.embed(data_set.passages, name, prompt="passage")
        ranks = rank(queries, passages, data_set.relevant, data_set.grades, data_set.excluded_passages, DEEP)
        ends = bootstrap(ranks.means, len(data_set.queries))
        first = [data_set.passages[top] if top >= 0 else None for top in ranks.first[:, 0]]
        gold = ([data_set.passages[number] for number in numbers] for numbers in data_set.relevant)
        predictions[name] = [
            {"id": number, "text": text, "gold": texts, "predicted": top, "probability": None}
            for number, (text, texts, top) in enumerate(zip(data_set.queries, gold, first, strict=True))
        ]
        entries[name] = {
            "examples": len(data_set.queries),
            "over": "queries",
            "metrics": {key: float(value.mean()) for key, value in ranks.figures.items()},
            "intervals": {key: both.tolist() for key, both in ends.items()},
            "passages": len(data_set.passages),
            **({"queries_left_out": data_set.num_left_out} if data_set.num_left_out else {}),
        }
    return Probed("retrieval", "ndcg_at_10", entries, predictions)


def _measure(predictions: Predictions, logits: Tensor) -> tuple[Predictions, Entry]:
    """Fills the predictions of a set with logits [M, C] of all samples or words; returns them with the set's entry."""
    places = torch.arange(len(logits))
    predictions.add({"samples": places, "words": places}, {"logits": logits.cpu()})
    predictions.join(lambda mine: [mine])
    return predictions, entry_with_intervals(predictions, predictions.metrics(), {})
