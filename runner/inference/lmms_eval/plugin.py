"""The entry point of `lmms-eval --model iolaus --model_args run=RUN`."""

from typing import Any


def manifest() -> Any:
    """Where lmms-eval finds the model; called by lmms-eval."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest(
        model_id="iolaus", simple_class_path="iolaus.runner.inference.lmms_eval.model.AnsweringTasks"
    )
