"""Base classes of trained models, which turn rows into predictions: `Kind`, `Tested` and `OfTexts`."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from omegaconf import OmegaConf

from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import Settings, check_names
from tiryns.runner.data.read.formats import ending_format
from tiryns.runner.data.read.opened import AS_FOUND, Reading
from tiryns.runner.data.read.rows import LabelRule, Row, Rows
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.evaluation.resampling import weighted_figures
from tiryns.runner.evaluation.totals import LabelledSet, mean_loss
from tiryns.runner.inference.passes import Computation, Measured, Model, Report, RowSums, passes
from tiryns.runner.run.files import named_path
from tiryns.runner.run.yaml_files import settings_in
from tiryns.runner.tasks import Task


@dataclass(frozen=True)
class PredictOptions:
    """Options of predictions; each kind of model reads its own.

    Example:
        >>> PredictOptions(steps=8, seed=1).order
        'random'
    """

    tokens: int | None = None
    """Labelled tasks and vectors: tokens of a micro-batch; None for the run's."""
    second: str | None = None
    """Labelled tasks: the second text that goes with each text, for pairs and questions."""
    images: str | Path | None = None
    """Vision-language models: the folder of the images; None leaves paths unchanged."""
    image: Sequence[str] = ()
    """Vision-language models: the images of each text."""
    max_new_tokens: int = 32
    """Vision-language models: the longest answer, in tokens; causal language models: the longest continuation."""
    steps: int = 1000
    """Language models: the number of sampling steps in which all masks are filled in."""
    temperature: float = 1.0
    """Language models: the temperature of the sampling; 0 takes the most likely token."""
    order: str = "random"
    """Language models: `random`, or `confidence`, which fills in the most likely tokens first."""
    seed: int = 0
    """Language models: the seed of the sampling."""
    top_k: int | None = None
    """Language models: predicts the k likeliest tokens of each mask, with probabilities; None predicts a text instead."""
    prompt: str | None = None
    """Vectors: the name of the prompt, such as `query` or `passage`; None for the model's default, if it has one."""
    dimensions: int | None = None
    """Vectors: how many of the first dimensions to keep; None for all."""


PLAIN = PredictOptions()
"""The default options."""


class Kept(NamedTuple):
    """Usable rows, with the prediction for each, and their metrics if they have labels."""

    rows: Sequence[Row]
    predictions: list[PredictionRow]
    figures: Mapping[str, float] = {}


class Kind(ABC):
    """A trained model, and how it reads rows; `changes` override the model's `data` settings."""

    name: str
    at_once: int
    """Rows of a batch."""
    text_column: str
    changes: Settings
    separator: str | None = None
    """Joins several labels of a row in csv and tsv files of predictions; None writes them as a JSON list."""
    rule = LabelRule.AS_NAMED
    """The rule that decides how labels and class names in files are read."""
    line_formats: tuple[str | None, ...] = ("txt", "md")
    """Endings of files that are read line by line."""
    model: Any

    @abstractmethod
    def values(self, text: str, options: PredictOptions) -> dict[str, object]:
        """Returns the columns of a row that is given as a plain text."""

    @abstractmethod
    def predict(self, rows: Rows, options: PredictOptions, number: int, figures: bool = False) -> Kept:
        """Returns predictions for the rows of batch `number`; with `figures` also metrics, if the rows have labels."""

    def convert(self, values: Mapping[str, object]) -> Mapping[str, object]:
        """Returns the columns of a row that is given as a mapping in Python."""
        return values

    def columns(self) -> tuple[str, ...]:
        """Returns the columns that a table must have."""
        return (self.text_column,)

    def reading_for(self, source: object) -> Reading:
        """Returns how to read a source, by the settings."""
        return AS_FOUND._replace(**{n: self.changes[n] for n in Reading._fields if n in self.changes})

    def reading(self, path: str) -> Reading:
        """Returns how to read a file: by the settings, else by its ending, else line by line."""
        ending, reading = ending_format(Path(path)), self.reading_for(path)
        lacks_format = reading.format == "auto" and not ending and not named_path(path).is_dir()
        return reading._replace(format="txt") if lacks_format or ending in self.line_formats else reading

    def has_labels(self, rows: Sequence[Row]) -> bool:
        """Whether rows have labels to compute metrics with."""
        return False


class Tested(Kind):
    """A model with the task, the objective and the computation of its run, measured as in the run's test."""

    task: Task
    collator: Any
    computation: Computation
    keeps_all = False
    of_sums = staticmethod(mean_loss)
    """Computes the metrics of a set that follow from its sums."""

    def output(self, sequences: Any) -> Model:
        """Returns a function from a micro-batch of a set to the output."""
        return cast(Model, self.model)

    def measure(
        self,
        sequences: Any,
        report: Report | None = None,
        output: Model | None = None,
        tokens: int | None = None,
        calibrating: bool = False,
    ) -> Measured[Predictions]:
        """Predicts for the samples of a set and computes its metrics; `output` replaces the model's output function.

        With `calibrating` the task uses this set to choose decision rules, such as thresholds, for other sets.
        """
        predictions = self.task.predictions(sequences, self.collator)
        predictions.keeps_all, self.model.by_row = self.keeps_all, True
        labelled_set = LabelledSet(predictions, calibrating)
        apart = RowSums(sequences.owners(), len(sequences.examples))
        arguments = output or self.output(sequences), self.collator, sequences, self.computation.limit(tokens)
        for batch in passes(*arguments, report=report):
            labelled_set.add(batch.micro_batch, batch.output)
            apart.add(batch)
        figures = labelled_set.finish(lambda mine: [mine], lambda sums: sums, self.of_sums)
        return Measured(predictions, figures, apart.sums, lambda: weighted_figures(predictions, apart.sums))


class OfTexts(Kind):
    """A model that reads one text of each row."""

    def __init__(self, changes: Settings) -> None:
        check_settings(changes, ("text_column", *Reading._fields))
        self.text_column, self.changes = changes.get("text_column", "text"), changes

    def values(self, text: str, options: PredictOptions) -> dict[str, object]:
        """Returns the text alone."""
        return {self.text_column: text}

    @abstractmethod
    def predict_texts(self, texts: list[str], options: PredictOptions, number: int) -> list[PredictionRow]:
        """Returns the prediction for each text of batch `number`; `texts` may be empty."""

    def predict(self, rows: Rows, options: PredictOptions, number: int, figures: bool = False) -> Kept:
        """Returns the prediction for each row that has a text."""
        usable, texts = [], []
        for row in rows.rows:
            with rows.bad.row():
                texts.append(row.text(self.text_column, "data.text_column"))
                usable.append(row)
        predictions = self.predict_texts(texts, options, number)
        return Kept(usable, [{"text": text, **one} for text, one in zip(texts, predictions, strict=True)])


def check_settings(changes: Iterable[str], names: Sequence[str]) -> None:
    """Raises ValueError for a setting of data that a command or a model does not take."""
    check_names("data", changes, names, " cannot be set here; there are:")


def option_defaults(group: str, option: str) -> Settings:
    """Returns the defaults of an option without its target; empty for an unknown option."""
    if option not in OPTIONS[group]:
        return {}
    values = settings_in(OmegaConf.structured(OPTIONS[group][option]))
    return {name: value for name, value in values.items() if name != "_target_"}
