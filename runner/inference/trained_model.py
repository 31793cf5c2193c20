"""A trained model of any kind, and its predictions for rows."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from iolaus.runner.data.labelled.examples import text_of
from iolaus.runner.data.read.rows import Row, Rows
from iolaus.runner.data.vision.images import ImageFolder
from iolaus.runner.inference.answering import (
    Answerer,
    ImageFiles,
    answer,
    load_answerer,
    questions_of,
    sees_images,
)
from iolaus.runner.inference.infill import fill, load, open_model
from iolaus.runner.inference.labelled import Predictor, load_predictor, predict, task_of
from iolaus.runner.models.diffusion import MaskedDiffusionLM

TrainedModel = Answerer | Predictor | tuple[MaskedDiffusionLM, PreTrainedTokenizerBase]
"""A model that answers questions about images, predicts labels, or fills in masks."""


def load_trained_model(run: str) -> TrainedModel:
    """The model of a run or a Hugging Face folder; raises ValueError where there is none of these kinds."""
    config, tokenizer = open_model(run)
    if sees_images(config):
        return load_answerer(run)
    task = task_of(run, config.architectures or [])
    return load_predictor(run, task, config, tokenizer) if task else load(run)


def predict_rows(
    model: TrainedModel,
    given: Sequence[Any],
    tokens: int | None,
    images: str | Path | None,
    max_new_tokens: int,
    sampling: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """The predictions for texts and mappings; `Run.predict` explains the arguments."""
    if not given:
        return []
    if isinstance(model, Answerer):
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens={max_new_tokens}: expected at least 1")
        names = model.reader.columns
        rows = _rows(given, lambda text: {names["question"]: text, names["image"]: []})
        files = ImageFiles() if images is None else ImageFolder(images)
        return list(answer(model, questions_of(model, rows), files, max_new_tokens))
    if isinstance(model, Predictor):
        column, task = model.settings["text_column"], model.task
        rows = _rows(given, lambda text: {column: text})
        for i, row in enumerate(rows):
            if isinstance(text := row.values.get(column), str):
                rows[i] = row._replace(values={**row.values, column: task.typed(text)})
        return list(predict(model, Rows(rows, "the rows"), tokens).rows)
    rows = _rows(given, lambda text: {"text": text})
    texts = [text_of(row, "text", "the name of the column to text") for row in rows]
    filled = fill(*model, texts, **sampling)
    return [{"text": text, "predicted": predicted} for text, predicted in zip(texts, filled, strict=True)]


def _rows(given: Sequence[Any], values_of: Callable[[str], dict[str, Any]]) -> list[Row]:
    """Rows as readers of files give them; `values_of` makes the columns of a text alone."""
    rows = []
    for number, value in enumerate(given, 1):
        if not isinstance(value, str | Mapping):
            expected = 'expected a text, or a mapping of its columns such as {"text": "..."}'
            raise ValueError(f"row {number} is a {type(value).__name__}: {expected}")
        rows.append(Row(f"row {number}", values_of(value) if isinstance(value, str) else value))
    return rows
