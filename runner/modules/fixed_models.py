"""Frozen models that training asks, such as a teacher: a run goes on with the same ones."""

from functools import cached_property

from tiryns.runner import log
from tiryns.runner.checkpoints.digests import state_digest
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.protocols import RunData, State

NAME = "fixed_models"
"""In a checkpoint: the digest of each model by the setting that names it."""


class FixedModels:
    """The frozen models of a task model, by the digests of their weights.

    Example:
        >>> from tiryns.runner.models import TaskModel
        >>> checkpoint = {}
        >>> FixedModels(TaskModel(None)).note(checkpoint)
        >>> checkpoint
        {}
    """

    def __init__(self, model: TaskModel) -> None:
        self._model = model

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of each model's weights, which are read once."""
        return {name: state_digest(model.state_dict()) for name, model in self._model.fixed_models().items()}

    def note(self, checkpoint: State) -> None:
        """Adds the digests to a checkpoint; nothing without such models."""
        if self.digests:
            checkpoint[NAME] = self.digests

    def check(self, checkpoint: State, data: RunData) -> None:
        """Raises ValueError where a model is not that of the checkpoint, unless the data accepts changes."""
        saved = checkpoint.get(NAME, {})
        for name, digest in self.digests.items():
            if saved.get(name, digest) == digest:
                continue
            message = f"{name}: its weights are not those that the checkpoint was trained with"
            if not data.accept_changes:
                raise ValueError(f"{message}. To go on all the same, set resume_changed_data=true")
            log.warning("%s; going on all the same", message)
