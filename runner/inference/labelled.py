"""Predicts labels, labels of words, and answers with a finetuned model."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from tiryns.conf.registry import OPTIONS, TASKS
from tiryns.runner.data.labelled.columns import without_hidden
from tiryns.runner.data.labelled.examples import READER_SETTINGS, ExampleReader
from tiryns.runner.data.labelled.labels import REGRESSION
from tiryns.runner.data.micro_batch import tokenizer_arguments
from tiryns.runner.data.read.bad_rows import RAISED, BadRows
from tiryns.runner.data.read.formats import ROWS, ending_format
from tiryns.runner.data.read.opened import AS_FOUND, OfRun, Reading, of_run
from tiryns.runner.data.read.rows import HowRead, LabelRule, Rows, read_rows
from tiryns.runner.inference.measuring import Measured, measure_set
from tiryns.runner.inference.passes import Computation, Report, as_trained
from tiryns.runner.run.model_folder import TASK, model_folder
from tiryns.runner.tasks import Task, get_task

log = logging.getLogger("tiryns")


class FinetunedModel(NamedTuple):
    """A finetuned model with its task, reader, tokenizer and collator."""

    task: Task
    reader: ExampleReader
    model: Any
    tokenizer: Any
    collator: Any
    settings: Mapping[str, Any]
    """The data settings of its training."""
    computation: Computation = Computation()
    """As its run computed it."""

    @property
    def rule(self) -> LabelRule:
        """The rule by which files are read: schemas name classes, and cards if they did in training."""
        return max(self.reader.rule, LabelRule.AS_WRITTEN)


def saved_task(run: str) -> dict[str, Any] | None:
    """The settings of a model's task that were exported with it; None for pretrained models and those of others."""
    file = Path(model_folder(run)) / TASK
    if not file.is_file():
        return None
    # 0.3 recorded no rule of labels; it exported settings that 0.2 had not
    saved = json.loads(file.read_text())
    rule = LabelRule.AS_WRITTEN if "label_columns" in saved["data"] else LabelRule.FROM_ZERO
    return {**rule.record, **saved}


def task_of(run: str, architectures: list[str]) -> Task | None:
    """The task that was exported with a model, else that of its class, or None; ValueError for an unregistered task."""
    if saved := saved_task(run):
        name = saved["data"]["task"]
        if name not in TASKS:
            unknown = f"the model in {run!r} was trained for the task {name!r}, which is not registered here"
            raise ValueError(f"{unknown}: name the module that registers it by --import MODULE")
        return get_task(name)
    for task in map(get_task, TASKS):
        kind = str(task.head).removeprefix("AutoModel")
        if task.reader and kind and any(name.endswith(kind) for name in architectures):
            return task
    return None


def load_finetuned(
    run: str, task: Task, config: Any, tokenizer: Any, changes: Mapping[str, Any] | None = None
) -> FinetunedModel:
    """The finetuned model of a run or of a Hugging Face folder, with its columns or the defaults of `data=<task>`.

    `changes` are data settings in the place of these.
    """
    known = saved_task(run) or _assumed(task, config, tokenizer)
    settings = {**AS_FOUND._asdict(), **of_run(known["data"]), **(changes or {})}
    settings.pop("task", None)
    reader = task.make_reader(settings)
    reader.rule = LabelRule.of(known)
    reader.restore(known["learnt"])
    collator = task.objective(
        **{**option_defaults("objective", task.name), **known["objective"]},
        **tokenizer_arguments(tokenizer),
        text_column=settings["text_column"],
        label_column=settings["label_column"],
        max_sequence_length=min(settings["max_length"], tokenizer.model_max_length),
        **reader.collator_arguments(),
    )
    model = collator.task_model(task.load(model_folder(run))).eval()
    computation = as_trained(run).set_up(collator, model)
    return FinetunedModel(task, reader, model, tokenizer, collator, settings, computation)


def rows_of_file(model: FinetunedModel, source: Any, split: str = "train", bad: BadRows = RAISED) -> Rows:
    """The rows of a file, or of another source, by its ending or else as they were read for training.

    `split` is for data sets with several whose name gives none.
    """
    how = HowRead(bad, model.reader.columns(), rule=model.rule)
    return arranged(model, read_rows(source, reading_for(model, source), split, how=how))


def arranged(model: FinetunedModel, rows: Rows) -> Rows:
    """Rows as the reader takes them, without hidden labels (see `without_hidden`)."""
    learnt = model.reader.state_dict()
    names = None if learnt.get("problem_type") == REGRESSION else learnt.get("labels") or []
    return model.reader.arranged(without_hidden(rows, model.reader.label_names(), names))


def reading_for(model: FinetunedModel, source: Any) -> Reading:
    """How a file is read: in the format that is given, else by an ending that is known, else as the training data.

    It is in the encoding of the training data where it is not UTF-8.
    """
    reading = Reading(*(model.settings[name] for name in Reading._fields))
    known = isinstance(source, str | Path) and ending_format(Path(source)) in ROWS
    return reading._replace(format="auto") if known and isinstance(reading.format, OfRun) else reading


def values_of_text(model: FinetunedModel, text: str, second: str | None) -> dict[str, Any]:
    """The columns of a text; raises ValueError unless `second` is given for pairs and questions alone."""
    settings, task = model.settings, model.task
    column = settings[task.second] if task.second else None
    if (second is None) != (column is None):
        what = f"give the {column} with --second TEXT" if column else "--second is for pairs and questions"
        raise ValueError(f"this model is for {task.name.replace('_', ' ')}: {what}")
    return {settings["text_column"]: task.typed(text), **({column: second} if column else {})}


class Predicted(NamedTuple):
    """Predictions for examples, with metrics where their labels are known."""

    rows: Iterator[dict[str, Any]]
    """`id`, text, `predicted` and `probability` of each example, in their order."""
    figures: dict[str, float]
    """The figures of a run's test, where there are labels."""


def predict(model: FinetunedModel, rows: Rows, micro_batch_tokens: int | None = None) -> Predicted:
    """Predictions for rows but those that `rows.bad` leaves out, and figures where the model knows their labels."""
    try:
        sequences = tokenized(model, rows)
    except ValueError as error:
        kept = without_left_out(rows)._replace(bad=RAISED)
        sequences = tokenized(model, unlabelled(model, kept))  # raises again if the labels are right
        log.warning("the labels are left out, and no figures computed: %s", error)
    if not sequences:
        return Predicted(iter(()), {})
    found = measure(model, sequences, micro_batch_tokens)
    without = ({n: v for n, v in row.items() if n != "gold"} for row in found.predictions.rows())
    return Predicted(without, found.figures)


def measure(
    model: FinetunedModel, sequences: Any, micro_batch_tokens: int | None = None, report: Report | None = None
) -> Measured:
    """Predicts for the samples of a set, and measures what is predicted, as a run tests its model."""
    collator, computation = model.collator, model.computation
    if micro_batch_tokens is not None:
        computation = computation._replace(micro_batch_tokens=micro_batch_tokens)
    predictions = model.task.predictions(sequences, collator)
    return measure_set(predictions, model.model, collator, computation, report)


def tokenized(model: FinetunedModel, rows: Rows) -> Any:
    """The samples of rows, with their labels; raises ValueError for a label that the model does not know."""
    examples = model.reader.examples(arranged(model, rows), labelled=False)
    return _samples(model, examples) if examples else ()


def usable_samples(model: FinetunedModel, rows: Rows) -> Any:
    """The samples of arranged rows but those that `rows.bad` leaves out; raises ValueError where none is left."""
    reader = model.reader
    examples = reader.usable(reader.examples(rows, labelled=False), rows.bad)
    if not examples:
        raise ValueError(f"{rows.description} holds no row that can be used: {rows.bad.first}")
    return _samples(model, examples)


def labelled_rows(rows: Rows, column: str) -> int:
    """The number of rows that have a label."""
    return sum(row.values.get(column) not in (None, "") for row in rows.rows)


def check_labels(rows: Rows, name: str, column: str, typed: Sequence[str]) -> None:
    """Raises ValueError unless some row has a label in `column`, which `typed` columns of the file are read into."""
    if labelled_rows(rows, column):
        return
    columns = list(dict.fromkeys(key for row in rows.rows[:1000] for key in row.values))
    absent = [one for one in typed if one not in columns]
    there = f"is not among its columns: {', '.join(map(str, columns))}" if absent else "is empty"
    setting = "label_columns" if len(typed) > 1 else "label_column"
    advice = f"name the right one (data.{setting}, data.tag_columns), or predict without labels by `tiryns predict`"
    raise ValueError(f"{name} has no labels: the column {(absent or typed)[0]!r} {there}; {advice}")


def without_left_out(rows: Rows) -> Rows:
    """The rows but those that were left out, after their examples were made."""
    left_out = {place for places in rows.bad.places.values() for place in places}
    return rows._replace(rows=[row for row in rows.rows if row.where not in left_out])


def unlabelled(model: FinetunedModel, rows: Rows) -> Rows:
    """Rows without the columns of labels."""
    names = set(model.reader.label_names())
    kept = [{name: value for name, value in row.values.items() if name not in names} for row in rows.rows]
    return rows._replace(rows=[row._replace(values=some) for row, some in zip(rows.rows, kept, strict=True)])


def _samples(model: FinetunedModel, examples: list[Any]) -> Any:
    length = min(model.settings["max_length"], model.tokenizer.model_max_length)
    return model.reader.tokenize(examples, model.tokenizer, length, training=False)


def option_defaults(group: str, option: str) -> dict[str, Any]:
    """The defaults of an option without its target; empty where there is no such option."""
    if option not in OPTIONS[group]:
        return {}
    values: Any = OmegaConf.to_container(OmegaConf.structured(OPTIONS[group][option]), resolve=False)
    return {name: value for name, value in values.items() if name != "_target_"}


def _assumed(task: Task, config: Any, tokenizer: Any) -> dict[str, Any]:
    """The settings of a task as far as a model's config gives them, else the defaults; texts as long as it reads them."""
    data = option_defaults("data", task.name)
    settings = {name: data[name] for name in (*READER_SETTINGS, *Reading._fields)}
    longest = getattr(config, "max_position_embeddings", None) or data["max_length"]
    longest = min(longest, tokenizer.model_max_length)
    windows = task.second == "context_column"  # of a length that a model was trained with
    settings["max_length"] = min(data["max_length"], longest) if windows else longest
    return {"data": settings, "learnt": task.assumed(config), "objective": {}, **LabelRule.AS_NAMED.record}
