"""The entry point of `lmms-eval --model tiryns --model_args run=RUN`."""

from typing import Any


def manifest() -> Any:
    """Where lmms-eval finds the model; called by lmms-eval."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest(
        model_id="tiryns", simple_class_path="tiryns.runner.inference.lmms_eval.model.AnsweringTasks"
    )
