"""Predicts with a finetuned model: labels, labels of words, answers."""

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from omegaconf import OmegaConf
from torch import Tensor

from iolaus.conf.registry import OPTIONS, TASKS
from iolaus.runner.data.batches import VALIDATION_STREAM, GlobalBatches
from iolaus.runner.data.evaluated import EVALUATED_AT_ONCE
from iolaus.runner.data.labelled.examples import READER_SETTINGS, ExampleReader
from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.data.read.formats import ROWS, ending_format
from iolaus.runner.data.read.opened import AS_FOUND, Reading
from iolaus.runner.data.read.rows import Row, Rows, read_rows
from iolaus.runner.models.packed.rows import may_be_padded
from iolaus.runner.run.model_folder import TASK, model_folder
from iolaus.runner.samplers import Sequential
from iolaus.runner.tasks import Task, get_task

log = logging.getLogger("iolaus")


class Predictor(NamedTuple):
    """A model with its tokenizer and its task."""

    task: Task
    reader: ExampleReader
    model: Any
    tokenizer: Any
    collator: Any
    settings: Mapping[str, Any]
    """The data settings that it was trained with."""


def task_of(run: str, architectures: list[str]) -> Task | None:
    """The task of a model: the one that is noted beside it, else that of its class; None for another kind of model.

    Raises:
        ValueError: the task that is noted is not registered here.
    """
    if noted := _noted(run):
        name = noted["data"]["task"]
        if name not in TASKS:
            raise ValueError(
                f"the model in {run!r} was trained for the task {name!r}, which is not registered here: name the module "
                "that registers it by --import MODULE"
            )
        return get_task(name)
    for task in map(get_task, TASKS):
        kind = str(task.head).removeprefix("AutoModel")
        if task.reader and any(name.endswith(kind) for name in architectures):
            return task
    return None


def load_predictor(run: str, task: Task, config: Any, tokenizer: Any) -> Predictor:
    """The finetuned model of a run or of a Hugging Face folder, with the task it was trained for.

    A model of others does not say which columns it was trained on: the defaults of `data=<task>` are taken.
    """
    known = _noted(run) or _assumed(task, config)
    settings = {
        **AS_FOUND._asdict(),
        **{name: value for name, value in known["data"].items() if name != "task"},
    }
    reader = task.make_reader(settings)
    reader.restore(known["learnt"])
    special = {"pad_token_id": tokenizer.pad_token_id, "mask_token_id": tokenizer.mask_token_id or 0}
    collator = task.objective(
        **{**own_settings("objective", task.name), **known["objective"]},
        **special,
        vocab_size=len(tokenizer),
        special_token_ids=tokenizer.all_special_ids,
        text_column=settings["text_column"],
        label_column=settings["label_column"],
        max_sequence_length=min(settings["max_length"], tokenizer.model_max_length),
        **reader.collator_arguments(),
    )
    model = collator.task_model(task.load(model_folder(run))).eval()
    return Predictor(task, reader, model, tokenizer, collator, settings)


def _noted(run: str) -> dict[str, Any] | None:
    """What was noted of a model's task when it was exported; None for models of others, and for pretrained ones."""
    file = Path(model_folder(run)) / TASK
    return json.loads(file.read_text()) if file.is_file() else None


def rows_of_file(predictor: Predictor, path: str) -> Rows:
    """The rows of a file, by its ending or else as they were read for training."""
    reading = Reading(*(predictor.settings[name] for name in Reading._fields))
    known = ending_format(Path(path)) in ROWS
    return read_rows(path, reading._replace(format="auto") if known else reading)


def rows_of_texts(predictor: Predictor, texts: list[str], second: str | None) -> Rows:
    """A row for each text: it alone, or with `second` as a pair; a sentence of words; a question with its context.

    Raises:
        ValueError: the task wants a second text, or does not take one.
    """
    settings, task = predictor.settings, predictor.task
    wanted = settings[task.second] if task.second else None
    if (second is None) != (wanted is None):
        what = f"give the {wanted} with --second TEXT" if wanted else "--second is for pairs and questions"
        raise ValueError(f"this model is for {task.name.replace('_', ' ')}: {what}")
    rows = []
    for number, text in enumerate(texts, 1):
        values = {settings["text_column"]: task.typed(text), **({wanted: second} if wanted else {})}
        rows.append(Row(f"text {number}", values))
    return Rows(rows, "texts")


class Predicted(NamedTuple):
    """Predictions for some examples, with metrics where their labels are known."""

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
    predictions = predictor.task.predictions(sequences, predictor.collator)
    for step in range(len(sampler)):
        for micro_batch in batches[step]["micro_batches"]:
            moved = {n: v.to(device) if isinstance(v, Tensor) else v for n, v in micro_batch.items()}
            predictions.add(cast(MicroBatch, moved), model(moved))
    predictions.join(lambda mine: [mine])
    shown = ({name: value for name, value in row.items() if name != "gold"} for row in predictions.rows())
    return Predicted(shown, predictions.metrics())


def _sequences(predictor: Predictor, rows: Rows) -> Any:
    """The samples of rows; without their labels, with a line in the log, where these cannot be measured by."""
    reader, column = predictor.reader, predictor.settings["label_column"]
    length = min(predictor.settings["max_length"], predictor.tokenizer.model_max_length)

    def made(rows: Rows) -> Any:
        examples = reader.examples(rows, labelled=False)
        return reader.tokenize(examples, predictor.tokenizer, length, training=False)

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
    """The defaults of an option, less its target; none where there is no such option."""
    if option not in OPTIONS[group]:
        return {}
    values = OmegaConf.to_container(OmegaConf.structured(OPTIONS[group][option]), resolve=False)
    assert isinstance(values, dict)
    return {str(name): value for name, value in values.items() if name != "_target_"}


def _assumed(task: Task, config: Any) -> dict[str, Any]:
    """The task that a model's config implies."""
    data = own_settings("data", task.name)
    longest = getattr(config, "max_position_embeddings", None) or data["max_length"]
    settings = {name: data[name] for name in (*READER_SETTINGS, *Reading._fields)}
    settings["max_length"] = min(data["max_length"], longest)
    return {"data": settings, "learnt": task.assumed(config), "objective": {}}
