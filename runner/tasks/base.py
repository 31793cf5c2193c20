"""The base classes of finetuning tasks, tasks by name, and the import of modules that register tasks."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import ClassVar, NamedTuple, TypeVar

import transformers
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from tiryns.conf.registry import METRICS, TASKS
from tiryns.conf.values import suggest
from tiryns.runner.config.targets import resolve_name
from tiryns.runner.data.labelled.examples import ExampleReader, Learnt
from tiryns.runner.data.labelled.labels import names_of
from tiryns.runner.data.micro_batch import Batch, MicroBatch, Tokenizer
from tiryns.runner.evaluation.predictions import Compared, Predictions
from tiryns.runner.models.encoder import load_encoder, trained_labels
from tiryns.runner.models.head import Head
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.models.weights import load_trained
from tiryns.runner.objectives import Collator
from tiryns.runner.objectives.labelled.finetuning import label_config


class Task:
    """A finetuning task, from rows to predictions.

    Its objective defines the head and the model (`Collator.auto`, `head_config`, `task_model`). Its evaluation defines
    the metrics, the metric that chooses the best checkpoint and the tables of the report.

    Example:
        >>> from tiryns.runner.tasks.classification import Classification
        >>> class Sentiment(Classification):
        ...     name = "sentiment"
        >>> Sentiment().head  # `register_task("sentiment", Sentiment)` adds it to `data.task`
        'AutoModelForSequenceClassification'
    """

    name: str
    """Name of the task in `data.task`."""

    reader: ClassVar[type[ExampleReader] | None] = None
    """Reads the rows of labelled data; None if the task has its own data module."""

    objective: ClassVar[type[Collator]]
    """Makes micro-batches with targets, and names the head and the model."""

    evaluation: ClassVar[type[Predictions]]
    """Collects predictions: metrics, rows of `predictions.jsonl`, tables of the report."""

    second: ClassVar[str | None] = None
    """The setting that names the column of a second text, such as `pair_column`; `predict --second` gives this text."""

    @property
    def head(self) -> str | None:
        """The class of transformers that loads a trained model."""
        return self.objective.auto

    def make_reader(self, settings: Mapping[str, object]) -> ExampleReader:
        """Returns the reader, with the settings it has parameters for; ValueError if the task reads no labelled rows."""
        if self.reader is None:
            raise ValueError(f"data.task={self.name}: it has its own data modules and reads no labelled rows")
        params = inspect.signature(self.reader).parameters
        values = {name: value for name, value in settings.items() if name in params}
        # a column may stand alone, or be a number; `tag_columns` may also have names for them
        names = [name for name in values if name.endswith("_columns") and name != "tag_columns"]
        return self.reader(**values | {name: names_of(values[name], f"data.{name}") for name in names})

    def collect(self, sequences: object, objective: Collator) -> Predictions:
        """Returns an empty collection of predictions for a set, with the settings of the run's objective."""
        return self.evaluation(sequences)

    def predictions(self, sequences: object, objective: Collator) -> Predictions:
        """Returns the collection of `collect`, with the metrics registered for its kind."""
        result = self.collect(sequences, objective)
        result.registered = {name: resolve_name(make) for name, make in METRICS.get(result.kind, {}).items()}
        return result

    def typed(self, text: str) -> object:
        """Returns the value of the text column for a text of the command line."""
        return text

    def reader_state(self, config: PretrainedConfig) -> Learnt:
        """Returns the reader's state from the config of a model trained elsewhere; ValueError if the config lacks it."""
        raise ValueError(f"the model was not trained here, so its labels for {self.name!r} are not known")

    def load(self, path: str) -> PreTrainedModel:
        """Returns the trained model of a folder, without the task's own loss."""
        return load_trained(getattr(transformers, str(self.head)), path)


class Evaluated(NamedTuple):
    """A batch of an evaluated set, the model's output, the names of the labels, and the tokenizer's `decode` if any."""

    micro_batch: MicroBatch
    output: Mapping[str, Tensor]
    names: Sequence[str]
    decode: Callable[[Tensor], str] | None


class TrainerTask(Task):
    """A task that `FinetuningModule` trains on batches of its collator, with any Trainer and any DataLoader."""

    reader: ClassVar[type[ExampleReader]]

    def model(self, name_or_path: str, num_labels: int | None, tokenizer: "Tokenizer | None") -> TaskModel:
        """Returns the model with the task's head, a new one if `num_labels` is set and differs from the model's."""
        head = self.trained_head(name_or_path, num_labels)
        return self.task_model(load_encoder(name_or_path, {}, tokenizer, head, new_vocabulary=False))

    def trained_head(self, name_or_path: str, num_labels: int | None) -> Head:
        """Returns the head that the model was trained with, or a new one for `num_labels` labels without names."""
        auto = getattr(transformers, str(self.head))
        if num_labels is None or trained_labels(name_or_path) == num_labels:
            return Head(auto)
        return Head(auto, label_config(unnamed_labels(num_labels)), fresh=True)

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the module that maps micro-batches to the sum of their losses."""
        raise NotImplementedError

    def micro_batch(self, batch: Batch, model: object, tokenizer: "Tokenizer | None") -> MicroBatch:
        """Returns the batch with the fields that the task's model reads, and the number of its targets as `weight`."""
        raise NotImplementedError

    def comparisons(self, batch: Evaluated) -> Iterator[Compared]:
        """Yields predictions of a batch and the truth, for each kind of metric (see `get_metrics_for_task`)."""
        raise NotImplementedError

    def example_predictions(self, sequences: object) -> Predictions | None:
        """Returns predictions that join the samples of an example; None if each sample is an example."""
        return None


def unnamed_labels(num_labels: int) -> list[str]:
    """Returns the names that transformers gives to labels without names."""
    return [f"LABEL_{number}" for number in range(num_labels)]


T = TypeVar("T", bound=Task)


def get_task(name: str) -> Task:
    """Returns the task that is registered under a name. Raises ValueError, which lists the tasks, for an unknown name.

    Example:
        >>> get_task("classification").second
        'pair_column'
    """
    return _task_of_kind(name, Task, "data.task")


def get_trainer_task(name: str) -> TrainerTask:
    """Returns the task of that name for `FinetuningModule`; raises ValueError as `get_task` does."""
    return _task_of_kind(name, TrainerTask, "task")


def _task_of_kind(name: str, kind: type[T], setting: str) -> T:
    task = _build(name) if name in TASKS else None
    if isinstance(task, kind):
        return task
    names = [other for other in TASKS if isinstance(_build(other), kind)]
    raise ValueError(f"{setting}={name!r}; there are: {', '.join(names)}" + suggest(name, names))


def _build(name: str) -> Task:
    entry = resolve_name(TASKS[name])
    task = entry() if isinstance(entry, type) and issubclass(entry, Task) else entry
    if not isinstance(task, Task):
        raise ValueError(f"the task {name!r} is registered as {entry!r:.80}, expected a runner.tasks.Task")
    return task


def import_modules(names: Iterable[str], setting: str = "imports") -> None:
    """Imports modules of the user, which may register tasks and metrics. Raises ImportError for a missing module."""
    for name in names:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, name.partition(".")[0]):
                raise
            raise ImportError(
                f"{setting}: there is no module {name!r}; its folder must be on PYTHONPATH"
            ) from error
