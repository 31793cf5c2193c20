"""Frozen models that training asks, such as a teacher: a run goes on with the same ones."""

from tiryns.runner import log
from tiryns.runner.protocols import RunData, State

FIXED_MODELS = "fixed_models"
"""In a checkpoint: the digest of each model by the setting that names it."""


def check_fixed_models(digests: dict[str, str], checkpoint: State, data: RunData) -> None:
    """Raises ValueError where a model is not that of the checkpoint, unless the data accepts changes."""
    saved = checkpoint.get(FIXED_MODELS, {})
    for name, digest in digests.items():
        if saved.get(name, digest) == digest:
            continue
        message = f"{name}: its weights are not those that the checkpoint was trained with"
        if not data.accept_changes:
            raise ValueError(f"{message}. To go on all the same, set resume_changed_data=true")
        log.warning("%s; going on all the same", message)
