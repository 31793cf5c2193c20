"""Finetuning tasks and further metrics by name: `register_task` and `register_metric` add those of a user or a package.

What is registered is an object, or its dotted name such as `my_package.tasks.Similarity`, which is imported when it is
first needed: so a package can register its tasks without importing torch in every command.
"""

from typing import Any

TASKS: dict[str, Any] = {}
"""What is registered of each task, a `runner.tasks.Task` or its dotted name: what `data.task` may be."""

METRICS: dict[str, dict[str, Any]] = {}
"""What makes each further metric, by the kind of prediction that it measures and by its own name."""

SMALLER_IS_BETTER = {"loss", "mse", "perplexity", "bits_per_token", "bits_per_byte"}
"""How the names of figures end that are errors; every other figure is better when large."""


def register_task(name: str, task: Any) -> None:
    """Offers a task under a name: an instance of a subclass of `runner.tasks.Task`, the subclass, or its dotted name.

    Example:
        >>> register_task("similarity", "my_package.similarity.Similarity")
    """
    TASKS[name] = task


def register_metric(kind: str, name: str, make: Any, smaller_is_better: bool = False) -> None:
    """Adds a metric to everything that is evaluated of a kind, such as `classification`; its figure has this name.

    Args:
        kind: `classification`, `multi_label`, `regression`, `token_classification`, `question_answering`,
            `vision_language`, or the `kind` of the predictions of a task of your own.
        name: What the figure is called, as in `val/validation/auroc`.
        make: Makes a `torchmetrics.Metric` of the number of labels; a function, or its dotted name.
        smaller_is_better: Whether the figure is an error: what a search and the best checkpoint go by.

    Example:
        >>> register_metric("classification", "auroc", "my_package.metrics.auroc")
    """
    METRICS.setdefault(kind, {})[name] = make
    if smaller_is_better:
        SMALLER_IS_BETTER.add(name)


def better_when(figure: str) -> str:
    """`min` or `max`: whether a figure, such as `val/books/loss` or `accuracy`, is better small or large."""
    return "min" if figure.endswith(tuple(SMALLER_IS_BETTER)) else "max"


for _name, _class in {
    "classification": "Classification",
    "token_classification": "TokenClassification",
    "question_answering": "QuestionAnswering",
    "vision_language": "VisionLanguage",
}.items():
    register_task(_name, f"iolaus.runner.tasks.{_name}.{_class}")
