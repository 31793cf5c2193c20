"""A vision-language model that was trained by Tiryns, on tasks of lmms-eval.

- `metrics`: figures of answers about images, which importing it registers; it needs no lmms-eval.
- `command`: `tiryns-lmms-eval RUN --tasks NAME,NAME`.
- `model`: the model in lmms-eval's protocol; `tasks`: finds tasks, runs them in lmms-eval's evaluator, reads its figures.
"""

from typing import Any


def manifest() -> Any:
    """Returns where `lmms-eval --model tiryns --model_args run=RUN` finds the model; called by lmms-eval."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest(model_id="tiryns", simple_class_path="tiryns_lmms_eval.model.AnsweringTasks")
