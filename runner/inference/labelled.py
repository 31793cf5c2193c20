"""Models that were finetuned for a task: labels, labels of words, and answers in contexts."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from sys import maxsize

from transformers import PreTrainedModel

from tiryns.conf.registry import TASKS
from tiryns.conf.values import Settings
from tiryns.runner import log
from tiryns.runner.data.labelled.columns import meant_error, without_hidden
from tiryns.runner.data.labelled.examples import READER_SETTINGS, TaskSequences
from tiryns.runner.data.labelled.labels import REGRESSION, names_of
from tiryns.runner.data.labelled.spelling import is_missing
from tiryns.runner.data.micro_batch import tokenizer_arguments
from tiryns.runner.data.pairs.reader import PairsReader
from tiryns.runner.data.read.bad_rows import RAISED, AdvisedError, BadRows, MissingColumn
from tiryns.runner.data.read.formats import ROWS, ending_format
from tiryns.runner.data.read.opened import AS_FOUND, OfRun, Reading, of_run
from tiryns.runner.data.read.rows import HowRead, LabelRule, Row, Rows, RowSource, read_rows
from tiryns.runner.evaluation.files import Entry
from tiryns.runner.inference.kinds import Kept, PredictOptions, Tested, option_defaults
from tiryns.runner.inference.language.infill import Opened
from tiryns.runner.inference.passes import as_trained
from tiryns.runner.models.positions import check_length, longest_text
from tiryns.runner.run.model_folder import TASK, model_folder
from tiryns.runner.tasks import Task, get_task


def saved_task(run: str) -> Settings | None:
    """Returns the settings of a model's task that were exported with it; None for pretrained and foreign models."""
    file = Path(model_folder(run)) / TASK
    if not file.is_file():
        return None
    # 0.3 recorded no rule of labels; it exported settings that 0.2 had not
    settings = json.loads(file.read_text())
    rule = LabelRule.AS_WRITTEN if "label_columns" in settings["data"] else LabelRule.FROM_ZERO
    return {**rule.record, **settings}


def task_of(run: str, architectures: list[str]) -> Task | None:
    """Returns the task exported with a model, else the task of its class, else None; ValueError for an unknown task."""
    if settings := saved_task(run):
        name = settings["data"]["task"]
        if name not in TASKS:
            unknown = f"the model in {run!r} was trained for the task {name!r}, which is not registered here"
            raise ValueError(f"{unknown}: name the module that registers it: --import MODULE")
        return get_task(name)
    for task in map(get_task, TASKS):
        kind = str(task.head).removeprefix("AutoModel")
        if task.reader and kind and any(name.endswith(kind) for name in architectures):
            return task
    return None


class Labels(Tested):
    """The finetuned model of a run or Hugging Face folder. If no task was exported, it has defaults of `data=<task>`.

    `settings` are the `data` settings of its training, overridden by `changes`; `reader`, `collator` and `computation`
    are those of its run.
    """

    at_once = 2048  # a multiple of the samples that an evaluation sorts by length

    def __init__(self, run: str, task: Task, parts: Opened, changes: Settings | None = None) -> None:
        pretrained_model, tokenizer = task.load(model_folder(run)), parts.tokenizer
        state = saved_task(run) or _default_state(task, pretrained_model, tokenizer.model_max_length)
        settings = {**AS_FOUND._asdict(), **of_run(state["data"]), **(changes or {})}
        settings.pop("task", None)
        self.task, self.name, self.settings, self.tokenizer = task, task.name, settings, tokenizer
        self.text_column, self.separator = settings["text_column"], settings.get("label_separator")
        self.reader = task.make_reader(settings)
        self.at_once = maxsize if self.reader.joins_rows else Labels.at_once
        self.reader.rule = LabelRule.of(state)
        self.reader.restore(state["learnt"])
        # schemas of files name classes, and cards if they did in training
        self.rule = max(self.reader.rule, LabelRule.AS_WRITTEN)
        self.collator = task.objective(
            **{**option_defaults("objective", task.name), **state["objective"]},
            **tokenizer_arguments(tokenizer),
            text_column=self.text_column,
            label_column=settings["label_column"],
            max_sequence_length=min(settings["max_length"], tokenizer.model_max_length),
            **self.reader.collator_arguments(),
        )
        check_length(pretrained_model, self.collator.max_sequence_length)
        self.model = self.collator.task_model(pretrained_model).eval()
        self.computation = as_trained(run).set_up(self.collator, self.model)

    def values(self, text: str, options: PredictOptions) -> dict[str, object]:
        """Returns the columns of a text and of any second text; ValueError if the second is missing or unexpected."""
        column = self.settings[self.task.second] if self.task.second else None
        if (options.second is None) != (column is None):
            advice = (
                f"give the {column} with --second TEXT" if column else "--second is for pairs and questions"
            )
            raise ValueError(f"this model is for {self.name.replace('_', ' ')}: {advice}")
        return {self.text_column: self.task.typed(text), **({column: options.second} if column else {})}

    def convert(self, values: Mapping[str, object]) -> Mapping[str, object]:
        """Returns the columns with a plain text converted to the type of the text column."""
        if isinstance(text := values.get(self.text_column), str):
            return {**values, self.text_column: self.task.typed(text)}
        return values

    def columns(self) -> tuple[str, ...]:
        labels = self.reader.label_names()
        return tuple(name for name in self.reader.columns() if name not in labels)

    def reading_for(self, source: object) -> Reading:
        """Returns how to read a source: in the given format, else by a known ending, else as the training data.

        A source that is not UTF-8 is read in the encoding of the training data.
        """
        reading = Reading(*(self.settings[name] for name in Reading._fields))
        is_known = isinstance(source, str | Path) and ending_format(Path(source)) in ROWS
        return reading._replace(format="auto") if is_known and isinstance(reading.format, OfRun) else reading

    def rows_of(self, source: RowSource, split: str = "train", bad: BadRows = RAISED) -> Rows:
        """Reads the rows of a file or another source, arranged for the reader; `split` names one split of a data set."""
        how = HowRead(bad, self.reader.columns(), rule=self.rule)
        row_source = self.reader.source(source, split)
        return self.arrange(read_rows(row_source, self.reading_for(source), split, how=how))

    def arrange(self, rows: Rows) -> Rows:
        """Returns rows arranged for the reader, without hidden labels (see `without_hidden`)."""
        learnt = self.reader.state_dict()
        # what pairs learn tells that labels are their scores
        are_numbers = learnt.get("problem_type") == REGRESSION or "most_negatives" in learnt
        names = None if are_numbers else learnt.get("labels") or []
        return self.reader.arranged(without_hidden(rows, self.reader.label_names(), names))

    def samples(self, rows: Rows, usable: bool = False) -> TaskSequences | tuple[()]:
        """Returns the samples of arranged rows, except for those that `rows.bad` leaves out; () if no row is left.

        `usable` also leaves out rows that the reader cannot measure. Raises ValueError for a label that the model does
        not know.
        """
        examples = self.reader.examples(rows, labelled=False)
        if usable:
            examples = self.reader.usable(examples, rows.bad)
        if isinstance(self.reader, PairsReader):  # later rows may have more hard negatives than in training
            self.model.texts_per_row = 2 + self.reader.most_negatives
        length = min(self.settings["max_length"], self.tokenizer.model_max_length)
        return self.reader.tokenize(examples, self.tokenizer, length, training=False) if examples else ()

    def has_labels(self, rows: Sequence[Row]) -> bool:
        return any(not is_missing(row.values.get(n)) for row in rows for n in self.reader.label_names())

    def predict(self, rows: Rows, options: PredictOptions, number: int, figures: bool = False) -> Kept:
        """Returns predictions; with `figures` also the metrics of a run's test, if the model knows the labels."""
        arranged_rows = self.arrange(rows) if self.reader.joins_rows else rows
        read = arranged_rows if figures else self.without_labels(arranged_rows)
        try:
            try:
                sequences = self.samples(self.arrange(read))
            except ValueError as error:
                usable = without_left_out(read)._replace(bad=RAISED)
                # raises if the labels are right
                sequences = self.samples(self.arrange(self.without_labels(usable)))
                log.warning("the labels are left out, and no metrics are computed: %s", error)
        except MissingColumn as error:
            labels = self.reader.state_dict().get("labels") or ()
            columns = (self.text_column, self.settings["label_column"], labels, self.reader)
            raise meant_error(error, arranged_rows, *columns) from None
        if not sequences:
            return Kept(without_left_out(arranged_rows).rows, [])
        result = self.measure(sequences, tokens=options.tokens)
        predictions = [{n: v for n, v in row.items() if n != "gold"} for row in result.predictions.rows()]
        return Kept(without_left_out(arranged_rows).rows, predictions, result.figures)

    def without_labels(self, rows: Rows) -> Rows:
        """Returns rows without the columns of labels."""
        names = set(self.reader.label_names())
        inputs = ({n: v for n, v in row.values.items() if n not in names} for row in rows.rows)
        return rows._replace(rows=list(map(Row, (row.where for row in rows.rows), inputs)))

    def labelled_samples(self, source: RowSource, name: str, bad: BadRows) -> tuple[TaskSequences, Entry]:
        """Returns the samples of the set `name`, and an entry with its numbers of unlabelled and of unusable rows.

        Raises ValueError if no row has a label, or no row can be used.
        """
        rows = self.rows_of(source, "test", bad)
        column = self.settings["label_column"] or self.settings["pair_column"]  # of pairs without scores
        if all(is_missing(row.values.get(column)) for row in rows.rows):
            label_columns = names_of(self.settings.get("label_columns")) or [column]
            columns = list(dict.fromkeys(key for row in rows.rows[:1000] for key in row.values))
            absent = [one for one in label_columns if one not in columns]
            there = f"is not among its columns: {', '.join(map(str, columns))}" if absent else "is empty"
            setting = f"data.label_column{'s' if len(label_columns) > 1 else ''}, data.tag_columns"
            advice = f"name the right one ({setting}), or predict without labels by `tiryns predict`"
            read = {self.settings.get(name) for name in ("text_column", "pair_column", "context_column")}
            others = [one for one in columns if one not in read]
            cure = {"label_column": others[0]} if absent and len(label_columns) == len(others) == 1 else {}
            problem = f"{name} has no labels: the column {(absent or label_columns)[0]!r} {there}; {advice}"
            raise AdvisedError(problem, **cure)
        if not (sequences := self.samples(rows, usable=True)):
            raise ValueError(f"{rows.description} holds no row that can be used: {bad.first}")
        num_unlabelled = sum(not self.reader.has_label(row, column) for row in without_left_out(rows).rows)
        reasons = bad.reasons()
        return sequences, {"unlabelled": num_unlabelled, **({"left_out": reasons} if reasons else {})}


def without_left_out(rows: Rows) -> Rows:
    """Returns the rows of which an example was made: all but the rows that `rows.bad` has left out."""
    bad_places = {place for places in rows.bad.places.values() for place in places}
    return rows._replace(rows=[row for row in rows.rows if row.where not in bad_places])


def _default_state(task: Task, pretrained: PreTrainedModel, longest: int) -> Settings:
    """Returns the state of a task that no folder has: defaults, with labels and the longest text of the model."""
    data = option_defaults("data", task.name)
    settings = {name: data[name] for name in (*READER_SETTINGS, *Reading._fields)}
    longest = min(longest_text(pretrained) or data["max_length"], longest)
    windows = task.second == "context_column"  # of a length that a model was trained with
    settings["max_length"] = min(data["max_length"], longest) if windows else longest
    learnt = task.reader_state(pretrained.config)
    return {"data": settings, "learnt": learnt, "objective": {}, **LabelRule.AS_NAMED.record}
