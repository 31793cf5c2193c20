"""What a finetuning task is: the names of its parts, and what they need to know of each other."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import transformers
from torch import Tensor

from iolaus.conf.registry import METRICS
from iolaus.runner.config.targets import dotted
from iolaus.runner.data.labelled.examples import ExampleReader
from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.evaluation.predictions import Predictions
from iolaus.runner.models.encoder import trained_labels
from iolaus.runner.models.head import Head
from iolaus.runner.models.task_model import TaskModel
from iolaus.runner.models.weights import load_trained
from iolaus.runner.objectives import Collator
from iolaus.runner.objectives.finetuning import label_config


class Task:
    """A finetuning task, from rows to predictions.

    Its head and its model are those of the objective (`Collator.auto`, `head_config` and `task_model`); its metrics, the
    figure that names the best checkpoint and the tables of its report those of its predictions.

    Example:
        >>> from iolaus.runner.tasks.classification import Classification
        >>> class Sentiment(Classification):
        ...     name = "sentiment"
        >>> register_task("sentiment", Sentiment)
        >>> get_task("sentiment").head
        'AutoModelForSequenceClassification'
    """

    name: str
    """What `data.task` calls it."""

    reader: ClassVar[type[ExampleReader] | None] = None
    """Reads the rows of labelled data; a task whose data module does so itself has none."""

    objective: ClassVar[type[Collator]]
    """Makes micro-batches with targets, and says which head and model learn them."""

    evaluation: ClassVar[type[Predictions]]
    """Collects what is predicted: metrics, rows of `predictions.jsonl`, tables of the report."""

    second: ClassVar[str | None] = None
    """The setting of the column for a second text, such as `pair_column`, that `predict --second` gives."""

    @property
    def head(self) -> str | None:
        """The class of transformers that loads a trained model."""
        return self.objective.auto

    def make_reader(self, settings: Mapping[str, Any]) -> ExampleReader:
        """The reader, by the settings of labelled data that it has parameters for.

        Raises:
            ValueError: the task has data modules of its own.
        """
        if self.reader is None:
            raise ValueError(
                f"data.task={self.name}: this task has data modules of its own, no labelled rows"
            )
        wanted = inspect.signature(self.reader).parameters
        return self.reader(**{name: value for name, value in settings.items() if name in wanted})

    def collect(self, sequences: Any, objective: Collator) -> Predictions:
        """An empty collection of predictions for a set, made by the settings of the run's objective."""
        return self.evaluation(sequences)

    def predictions(self, sequences: Any, objective: Collator) -> Predictions:
        """The same, with the metrics that are registered for its kind."""
        made = self.collect(sequences, objective)
        made.registered = {name: dotted(make) for name, make in METRICS.get(made.kind, {}).items()}
        return made

    def typed(self, text: str) -> Any:
        """What a text of the command line is in the text column."""
        return text

    def assumed(self, config: Any) -> dict[str, Any]:
        """What the reader would have learnt, as far as the config of a model of others tells it.

        Raises:
            ValueError: it does not.
        """
        raise ValueError(
            f"the model was not trained here, so what its task {self.name!r} has learnt is not known"
        )

    def load(self, path: str) -> Any:
        """The trained model of a folder, without the task's own loss."""
        return load_trained(getattr(transformers, str(self.head)), path)


class Evaluated(NamedTuple):
    """A batch of an evaluated set, by the names of the task's model, and what the model makes of it."""

    micro_batch: MicroBatch
    output: Mapping[str, Tensor]
    names: Sequence[str]
    """Those of the labels."""
    decode: Callable[[Tensor], str] | None
    """The text of token ids; None without a tokenizer."""


class Measured(NamedTuple):
    """Predictions of a batch, and what is true, for metrics of some kind."""

    kind: str
    """See `get_metrics_for_task`."""
    predicted: Any
    true: Any
    only: Sequence[str] | None = None
    """Metrics of that kind that are meant; None for all."""


class TrainerTask(Task):
    """A task that `FinetuningModule` trains on batches of its collator, with any Trainer and any DataLoader."""

    reader: ClassVar[type[ExampleReader]]

    def model(self, name_or_path: str, num_labels: int | None, tokenizer: Any) -> TaskModel:
        """The model with the task's head, which starts anew where it is to have another number of labels than it had."""
        raise NotImplementedError

    def micro_batch(self, batch: dict[str, Any], model: Any, tokenizer: Any) -> MicroBatch:
        """The batch by the names of the task's model, with the number of its targets as `weight`."""
        raise NotImplementedError

    def measured(self, batch: Evaluated) -> Iterator[Measured]:
        """What is measured of a batch."""
        raise NotImplementedError

    def joined(self, sequences: Any) -> Predictions | None:
        """Predictions that join the samples of one example; None where each sample is one."""
        return None


def labelled_head(auto: Any, name_or_path: str, num_labels: int | None) -> Head:
    """A head for so many labels without names, or for those that it was trained with."""
    if num_labels is None or trained_labels(name_or_path) == num_labels:
        return Head(auto)
    return Head(auto, label_config(list(unnamed_labels(num_labels).values())), fresh=True)


def unnamed_labels(num_labels: int) -> dict[int, str]:
    """What transformers calls labels without names."""
    return {number: f"LABEL_{number}" for number in range(num_labels)}
