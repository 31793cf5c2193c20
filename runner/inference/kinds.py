"""The kinds of trained models that make predictions: finetuned for a task, about images, and for masks."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.conf.values import suggest
from tiryns.runner.data.labelled.columns import meant_error
from tiryns.runner.data.labelled.examples import text_of
from tiryns.runner.data.read.bad_rows import MissingColumn
from tiryns.runner.data.read.files import is_saved
from tiryns.runner.data.read.formats import ending_format
from tiryns.runner.data.read.opened import AS_FOUND, Reading
from tiryns.runner.data.read.rows import LabelRule, Row, Rows
from tiryns.runner.data.vision.images import ImageFolder
from tiryns.runner.inference.answering import ImageFiles, answer, load_answerer, questions_of
from tiryns.runner.inference.labelled import (
    FinetunedModel,
    predict,
    reading_for,
    unlabelled,
    values_of_text,
    without_left_out,
)
from tiryns.runner.inference.language.generation import continuation, load_causal
from tiryns.runner.inference.language.infill import MASK, fill, load
from tiryns.runner.order.keyed import derive_seed


@dataclass(frozen=True)
class PredictOptions:
    """What predictions are asked for with; each kind of model reads its own.

    Example:
        >>> PredictOptions(steps=8, seed=1).order
        'random'
    """

    tokens: int | None = None
    """Labelled tasks and vectors: tokens of a micro-batch; none takes those of the run."""
    second: str | None = None
    """Labelled tasks: the other text of each text, for pairs and questions."""
    images: str | Path | None = None
    """Vision-language models: the folder of the images; none takes paths as they are."""
    image: Sequence[str] = ()
    """Vision-language models: the images of each text."""
    max_new_tokens: int = 32
    """Vision-language models: the longest answer, in tokens; causal language models: the longest continuation."""
    steps: int = 1000
    """Language models: sampling steps from all masked to none."""
    temperature: float = 1.0
    """Language models: of the sampling; 0 takes the most likely token."""
    order: str = "random"
    """Language models: `random`, or `confidence`, which fills in the most likely tokens first."""
    seed: int = 0
    """Language models: of the sampling."""
    prompt: str | None = None
    """Vectors: the name of the prompt, such as `query` or `passage`; none takes the model's default, if it has one."""
    dimensions: int | None = None
    """Vectors: how many of the first numbers to keep; none keeps all."""


PLAIN = PredictOptions()
"""All as it is by default."""


class Kept(NamedTuple):
    """Rows that could be used, with the prediction for each, and their figures where they have labels."""

    rows: Sequence[Row]
    predictions: list[dict[str, Any]]
    figures: Mapping[str, float] = {}


class Kind(ABC):
    """A model with what turns rows into predictions."""

    name: str
    at_once: int
    """Rows of a batch."""
    text_column: str
    separator: str | None = None
    """What stands between several labels of a row in a table."""
    rule = LabelRule.AS_NAMED
    """Which class names of files count."""
    model: Any

    @abstractmethod
    def values(self, text: str, options: PredictOptions) -> dict[str, Any]:
        """The columns of a text."""

    @abstractmethod
    def predict(self, rows: Rows, options: PredictOptions, number: int) -> Kept:
        """The predictions for the rows of batch `number`."""

    def typed(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The columns of a mapping that is given in Python."""
        return values

    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return (self.text_column,)

    def reading(self, path: str) -> Reading:
        """How a file is read: by its ending, or line by line where its name has none."""
        return (
            AS_FOUND if ending_format(Path(path)) or is_saved(Path(path)) else AS_FOUND._replace(format="txt")
        )

    def labelled(self, rows: Sequence[Row]) -> bool:
        """Whether rows have labels to compute figures with."""
        return False

    def measured(self, rows: Rows, options: PredictOptions) -> Kept:
        """Predictions for rows, with figures."""
        return self.predict(rows, options, 0)


class Labels(Kind):
    """A model that was finetuned for a task."""

    at_once = 2048  # a multiple of the samples that an evaluation sorts by length

    def __init__(self, model: FinetunedModel) -> None:
        self.model, self.name, self.rule = model, model.task.name, model.rule
        self.text_column = model.settings["text_column"]
        self.separator = model.settings.get("label_separator")

    def values(self, text: str, options: PredictOptions) -> dict[str, Any]:
        """The text, and the second one."""
        return values_of_text(self.model, text, options.second)

    def typed(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """A text alone becomes what the column of text holds."""
        if isinstance(text := values.get(self.text_column), str):
            return {**values, self.text_column: self.model.task.typed(text)}
        return values

    def columns(self) -> tuple[str, ...]:
        """Those of the reader but that of the label."""
        labels = self.model.reader.label_names()
        return tuple(name for name in self.model.reader.columns() if name not in labels)

    def reading(self, path: str) -> Reading:
        """By its ending, or as the training data was read; line by line where neither tells."""
        found = reading_for(self.model, path)
        plain = found.format == "auto" and not ending_format(Path(path)) and not is_saved(Path(path))
        return found._replace(format="txt") if plain or ending_format(Path(path)) in ("txt", "md") else found

    def labelled(self, rows: Sequence[Row]) -> bool:
        """Whether a row has a label."""
        names = self.model.reader.label_names()
        return any(row.values.get(name) not in (None, "") for row in rows for name in names)

    def predict(self, rows: Rows, options: PredictOptions, number: int) -> Kept:
        """Predictions without figures."""
        return self._kept(unlabelled(self.model, rows), rows, options)

    def measured(self, rows: Rows, options: PredictOptions) -> Kept:
        """Predictions, and the figures of a run's test."""
        return self._kept(rows, rows, options)

    def _kept(self, read: Rows, given: Rows, options: PredictOptions) -> Kept:
        try:
            found = predict(self.model, read, options.tokens)
        except MissingColumn as error:
            label_column = self.model.settings["label_column"]
            labels = self.model.reader.state_dict().get("labels") or ()
            columns = (self.text_column, label_column, labels, self.model.reader)
            raise meant_error(error, given, *columns) from None
        return Kept(without_left_out(given).rows, list(found.rows), found.figures)


class Answers(Kind):
    """A vision-language model."""

    name, at_once = "vision_language", 256

    def __init__(self, run: str, changes: Mapping[str, Any]) -> None:
        columns = {"question": changes["text_column"]} if "text_column" in changes else {}
        check_settings(changes, ("text_column", *Reading._fields))
        self.model = load_answerer(run, columns=columns)
        self.text_column, self.changes = self.model.reader.columns["question"], changes

    def values(self, text: str, options: PredictOptions) -> dict[str, Any]:
        """The question, with its images."""
        return {self.text_column: text, self.model.reader.columns["image"]: list(options.image)}

    def reading(self, path: str) -> Reading:
        """By the ending of the file."""
        return given_reading(super().reading(path), self.changes)

    def columns(self) -> tuple[str, ...]:
        """None: conversations have others than questions."""
        return ()

    def predict(self, rows: Rows, options: PredictOptions, number: int) -> Kept:
        """What the model writes."""
        if options.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens={options.max_new_tokens}: expected at least 1")
        files: Any = ImageFiles() if options.images is None else ImageFolder(options.images)
        questions = questions_of(self.model, rows.rows)
        return Kept(rows.rows, list(answer(self.model, questions, files, options.max_new_tokens)))


class OfTexts(Kind):
    """A model that reads one text of each row."""

    def __init__(self, changes: Mapping[str, Any]) -> None:
        check_settings(changes, ("text_column", *Reading._fields))
        self.text_column, self.changes = changes.get("text_column", "text"), changes

    def values(self, text: str, options: PredictOptions) -> dict[str, Any]:
        """The text alone."""
        return {self.text_column: text}

    def reading(self, path: str) -> Reading:
        """By the ending of the file."""
        found = given_reading(super().reading(path), self.changes)
        return found._replace(format="txt") if ending_format(Path(path)) in ("txt", "md") else found

    def texts(self, rows: Rows) -> tuple[list[Row], list[str]]:
        """The rows that can be used, and the text of each."""
        kept, texts = [], []
        for row in rows.rows:
            with rows.bad.row():
                texts.append(text_of(row, self.text_column, "data.text_column"))
                kept.append(row)
        return kept, texts


class Masks(OfTexts):
    """A language model, which fills in masks."""

    name, at_once = "infill", 256

    def __init__(self, run: str, changes: Mapping[str, Any]) -> None:
        super().__init__(changes)
        self.model, self.tokenizer = load(run)

    def predict(self, rows: Rows, options: PredictOptions, number: int) -> Kept:
        """The texts filled in; the batches after the first have seeds of their own."""
        kept, texts = self.texts(rows)
        seed = derive_seed(options.seed, number) % 2**63 if number else options.seed
        sampling = (options.steps, options.temperature, options.order, seed)
        filled = fill(self.model, self.tokenizer, texts, *sampling) if texts else []
        pairs = zip(texts, filled, strict=True)
        return Kept(kept, [{"text": text, "predicted": predicted} for text, predicted in pairs])


class Continuations(Masks):
    """A causal language model, which continues texts; one that reads both ways fills in masks besides."""

    name = "generation"

    def __init__(self, run: str, changes: Mapping[str, Any], fills: bool) -> None:
        if fills:
            super().__init__(run, changes)
        else:
            OfTexts.__init__(self, changes)
        self.fills = fills
        self.causal, self.tokenizer = load_causal(run)

    def predict(self, rows: Rows, options: PredictOptions, number: int) -> Kept:
        """What the model writes behind each text, or the text with its masks filled in."""
        kept, found = [], []
        for place, row in enumerate(rows.rows, number * self.at_once):
            with rows.bad.row():
                text = text_of(row, self.text_column, "data.text_column")
                if self.fills and MASK in text:
                    predicted = super().predict(rows._replace(rows=[row]), options, place).predictions[0]
                else:
                    sampling = (options.max_new_tokens, options.temperature, derive_seed(options.seed, place))
                    written = continuation(self.causal, self.tokenizer, text, *sampling)
                    predicted = {"text": text, "predicted": written}
                found.append(predicted)
                kept.append(row)
        return Kept(kept, found)


def check_settings(changes: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raises ValueError for a setting that the model does not read."""
    for name in changes:
        if name not in known:
            raise ValueError(f"data.{name} is not read by this model{suggest(name, known)}")


def given_reading(reading: Reading, changes: Mapping[str, Any]) -> Reading:
    """How a file is read, with the settings that are given."""
    return reading._replace(**{name: changes[name] for name in Reading._fields if name in changes})
