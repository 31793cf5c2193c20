"""The model of a finetuning task by name: its weights, the task's head, and its tokenizer if it has one."""

from typing import Any

from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from iolaus.runner.config.custom_code import from_pretrained
from iolaus.runner.data.labelled.labels import SINGLE
from iolaus.runner.data.text.tokenizer import load_tokenizer
from iolaus.runner.models import load_encoder
from iolaus.runner.models.finetuning import QuestionAnswerer, SequenceClassifier, TaskModel, TokenClassifier
from iolaus.runner.models.head import Head
from iolaus.runner.run.model_folder import model_folder

MAX_ANSWER_TOKENS = 30
"""Longest answer that is predicted."""


def load_task_model(task: str, name_or_path: str, num_labels: int | None, tokenizer: Any) -> TaskModel:
    """The model with the task's head, which starts anew where it is to have another number of labels than it had."""
    if task == "question_answering":
        head = Head(AutoModelForQuestionAnswering, {"num_labels": 2})
        return QuestionAnswerer(load_encoder(name_or_path, {}, tokenizer, head), MAX_ANSWER_TOKENS, 0.0)
    auto = AutoModelForSequenceClassification if task == "classification" else AutoModelForTokenClassification
    labels: dict[str, Any] = {}
    if num_labels is not None and _trained_labels(name_or_path) != num_labels:
        names = unnamed_labels(num_labels)
        labels = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
    pretrained = load_encoder(name_or_path, {}, tokenizer, Head(auto, labels, fresh=bool(labels)))
    if task == "classification":
        return SequenceClassifier(pretrained, pretrained.config.problem_type or SINGLE)
    return TokenClassifier(pretrained, constrained_decoding=False)


def own_tokenizer(name_or_path: str) -> Any:
    """The model's tokenizer; None where it has none."""
    try:
        return load_tokenizer(model_folder(name_or_path), needed=())
    except FileNotFoundError:
        return None


def unnamed_labels(num_labels: int) -> dict[int, str]:
    """What transformers calls labels without names."""
    return {number: f"LABEL_{number}" for number in range(num_labels)}


def _trained_labels(name_or_path: str) -> int | None:
    """How many labels the config of a model has; None where it cannot be read."""
    try:
        return int(from_pretrained(AutoConfig, model_folder(name_or_path)).num_labels)
    except (OSError, ValueError):
        return None
