"""What a finetuned model says of data it has not seen: labels, labels of words, answers."""

import inspect
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import OmegaConf
from torch import Tensor

from iolaus.conf.registry import OPTIONS
from iolaus.runner.data.batches import VALIDATION_STREAM, GlobalBatches
from iolaus.runner.data.evaluated import EVALUATED_AT_ONCE
from iolaus.runner.data.labelled.finetuning import make_task
from iolaus.runner.data.labelled.task import Task
from iolaus.runner.data.micro_batch import tokenizer_arguments
from iolaus.runner.data.read.conll import Row
from iolaus.runner.data.read.task_readers import FORMATS_BY_ENDING, Rows, read_rows
from iolaus.runner.inference.export import TASK, model_folder
from iolaus.runner.models.packed.rows import may_be_padded
from iolaus.runner.models.weights import load_trained
from iolaus.runner.objectives import get_collator_cls
from iolaus.runner.samplers import Sequential

log = logging.getLogger("iolaus")

HEADS = {
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "token_classification",
    "ForQuestionAnswering": "question_answering",
}
"""Tasks by the end of a model class's name."""

NOTED = (
    *inspect.signature(make_task).parameters,
    *("format", "word_field", "tag_field", "max_length"),
)
"""The data settings that matter for predictions."""


class Predictor(NamedTuple):
    """A model with everything that is known of its task."""

    task: Task
    model: Any
    tokenizer: Any
    collator: Any
    settings: Mapping[str, Any]
    """The data settings that it was trained with."""


def task_of(architectures: list[str]) -> str | None:
    """The task of a model by its class; None for another kind of model."""
    return next((t for name in architectures for end, t in HEADS.items() if name.endswith(end)), None)


def load_predictor(run: str, config: Any, tokenizer: Any) -> Predictor:
    """The finetuned model of a run or of a Hugging Face folder, with the task it was trained for.

    A model of others does not say which columns it was trained on: the defaults of `data=<task>` are taken.
    """
    import transformers

    name = task_of(config.architectures)
    assert name is not None
    folder = model_folder(run)
    noted = Path(folder) / TASK
    known = json.loads(noted.read_text()) if noted.is_file() else _assumed(name, config)
    settings = dict(known["data"])
    reading = {key: settings.pop(key) for key in ("format", "word_field", "tag_field")}
    max_length = settings.pop("max_length")
    task = make_task(**settings)
    task.restore(known["learnt"])
    auto = {
        "classification": transformers.AutoModelForSequenceClassification,
        "token_classification": transformers.AutoModelForTokenClassification,
        "question_answering": transformers.AutoModelForQuestionAnswering,
    }[name]
    collator = get_collator_cls(name)(
        **{**own_settings("objective", name), **known["objective"]},
        **tokenizer_arguments(tokenizer),
        text_column=settings["text_column"],
        label_column=settings["label_column"],
        max_sequence_length=min(max_length, tokenizer.model_max_length),
        **task.collator_arguments(),
    )
    model = collator.task_model(load_trained(auto, folder)).eval()
    return Predictor(task, model, tokenizer, collator, {**settings, **reading, "max_length": max_length})


def rows_of_file(predictor: Predictor, path: str) -> Rows:
    """The rows of a file, by its ending or else as they were read for training."""
    settings = predictor.settings
    format = "auto" if Path(path).suffix.lower() in FORMATS_BY_ENDING else settings["format"]
    rows = read_rows(path, format, settings["word_field"], settings["tag_field"])
    if not rows.rows:
        raise ValueError(f"{path} holds no examples")
    return rows


def rows_of_texts(predictor: Predictor, texts: list[str], second: str | None) -> Rows:
    """A row for each text: it alone, or with `second` as a pair; a sentence of words; a question with its context.

    Raises:
        ValueError: the task wants a second text, or does not take one.
    """
    settings, task = predictor.settings, predictor.task.name
    wanted = {
        "question_answering": settings["context_column"],
        "classification": settings["pair_column"],
    }.get(task)
    if (second is None) != (wanted is None):
        what = f"give the {wanted} with --second TEXT" if wanted else "--second is for pairs and questions"
        raise ValueError(f"this model is for {task.replace('_', ' ')}: {what}")
    rows = []
    for number, text in enumerate(texts, 1):
        value = text.split() if task == "token_classification" else text
        values = {settings["text_column"]: value, **({wanted: second} if wanted else {})}
        rows.append(Row(f"text {number}", values))
    return Rows(rows, "texts")


class Predicted(NamedTuple):
    """What a model says of some examples."""

    rows: Iterator[dict[str, Any]]
    """Of each example, in their order: `id`, the text, `predicted`, `probability`."""
    figures: dict[str, float]
    """The metrics of a run's test, where there are labels."""


@torch.no_grad()
def predict(predictor: Predictor, rows: Rows, micro_batch_tokens: int) -> Predicted:
    """What the model says of each example; measured, where the rows have labels that it knows."""
    model, sequences = predictor.model, _sequences(predictor, rows)
    size = min(EVALUATED_AT_ONCE, len(sequences))
    sampler = Sequential(dataset=sequences, num_epochs=1, num_batches=None, global_batch_size=size, seed=0)
    rows_alone = not may_be_padded(model)
    batches = GlobalBatches(
        sequences,
        sampler,
        predictor.collator,
        0,
        VALIDATION_STREAM,
        0,
        1,
        micro_batch_tokens,
        1 if rows_alone else None,
        packed=False,
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    predictions = model.predictions(sequences)
    for step in range(len(sampler)):
        for micro_batch in batches[step]["micro_batches"]:
            moved = {n: v.to(device) if isinstance(v, Tensor) else v for n, v in micro_batch.items()}
            predictions.add(moved, model(moved))
    predictions.join(lambda mine: [mine])
    shown = ({name: value for name, value in row.items() if name != "gold"} for row in predictions.rows())
    return Predicted(shown, predictions.metrics())


def _sequences(predictor: Predictor, rows: Rows) -> Any:
    """The samples of rows; without their labels, with a line in the log, where these cannot be measured by."""
    task, column = predictor.task, predictor.settings["label_column"]
    length = min(predictor.settings["max_length"], predictor.tokenizer.model_max_length)

    def made(rows: Rows) -> Any:
        examples = task.examples(rows, labelled=False)
        return task.tokenize(examples, predictor.tokenizer, length, training=False)

    try:
        return made(rows)
    except ValueError as error:
        unlabelled = [
            Row(row.where, {n: v for n, v in row.values.items() if n != column}) for row in rows.rows
        ]
        sequences = made(rows._replace(rows=unlabelled))  # raises again where the labels are not to blame
        log.warning("the labels are left out, and no figures computed: %s", error)
        return sequences


def own_settings(group: str, option: str) -> dict[str, Any]:
    """The defaults of an option, less its target."""
    values = OmegaConf.to_container(OmegaConf.structured(OPTIONS[group][option]), resolve=False)
    assert isinstance(values, dict)
    return {str(name): value for name, value in values.items() if name != "_target_"}


def _assumed(task: str, config: Any) -> dict[str, Any]:
    """The task of a model that says no more than its config does."""
    names = [config.id2label[i] for i in range(len(config.id2label))]
    data = own_settings("data", task)
    learnt = {
        "classification": {
            "labels": names,
            "problem_type": config.problem_type or "single_label_classification",
        },
        "token_classification": {"labels": names, "default_label": names.index("O") if "O" in names else 0},
        "question_answering": {"may_be_empty": False},
    }[task]
    longest = getattr(config, "max_position_embeddings", None) or data["max_length"]
    settings = {name: data[name] for name in NOTED} | {"max_length": min(data["max_length"], longest)}
    return {"data": settings, "learnt": learnt, "objective": {}}
