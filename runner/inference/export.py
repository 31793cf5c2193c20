"""The trained model as a Hugging Face folder, with tokenizer and model card."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from tiryns.conf.values import Settings
from tiryns.runner.inference.card import model_card
from tiryns.runner.models.adapters import save_model
from tiryns.runner.models.embedding.contrastive import options_without_pooler
from tiryns.runner.models.embedding.folder import write_embedding
from tiryns.runner.models.positions import longest_text
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.models.weights import no_bars
from tiryns.runner.run.errors import reason_of
from tiryns.runner.run.files import replacing
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import TASK


def export_model(
    module: Any,
    preprocessor: Any,
    folder: Run,
    results: dict[str, float],
    weights: dict[str, Tensor] | None,
    task: Settings,
) -> Path | None:
    """Writes `model/` in the run folder, which `AutoModel...from_pretrained` loads without this project.

    From a plain LightningModule it exports the transformers model, or returns None if there is none. `preprocessor` is
    a tokenizer or processor; `weights` are the gathered weights of a sharded model, else None; `task` has the settings
    for `tiryns predict`. Raises OSError if the folder cannot be written or is full.
    """
    model = getattr(module, "model", None)
    if not hasattr(model, "pretrained"):
        if (pretrained_model := exported_model(module)) is None:
            return None
        architecture = f"of the architecture {pretrained_model.config.model_type}"
        model = SimpleNamespace(pretrained=pretrained_model, describe=lambda: architecture)
    has_manifest = (folder.path / "manifest.json").is_file()
    card = model_card(model, preprocessor, folder, results, module.trainer.global_step, has_manifest)
    with module.evaluation_weights():
        return write_model(model, preprocessor, folder.path / "model", card, weights, task)


def check_export(module: nn.Module, preprocessor: object, folder: Run, task: Settings) -> None:
    """Tries before training to export everything but the weights.

    Raises ValueError if the tokenizer, the model's config or the settings of the task cannot be written, OSError if the
    folder cannot be written.
    """
    model = getattr(getattr(module, "model", None), "pretrained", None) or exported_model(module)
    if model is None:
        return
    parts: dict[str, Callable[[str], object]] = {
        "the settings of the task": lambda target: json.dumps(task),
        "the model's config": model.config.save_pretrained,
        "the tokenizer": getattr(preprocessor, "save_pretrained", lambda target: None),
    }
    try:
        with TemporaryDirectory(prefix=".export.", dir=folder.path) as target:
            for part, save in parts.items():
                try:
                    save(target)
                except OSError:
                    raise
                except Exception as error:  # of tokenizers, json or the config's class
                    message = f"{part} cannot be saved with the trained model: {reason_of(error)}"
                    raise ValueError(message) from error
    except OSError as error:
        raise OSError(f"cannot export to {str(folder.path)!r}: {error.strerror or error}") from error


def exported_model(module: nn.Module) -> PreTrainedModel | None:
    """Returns the outermost model of transformers in a module; None without one."""
    return next((part for part in module.modules() if isinstance(part, PreTrainedModel)), None)


def write_model(
    model: Any, preprocessor: Any, target: Path, card: str, weights: dict[str, Tensor] | None, task: Settings
) -> Path:
    """Writes or replaces the folder `target` atomically, with `preprocessor` if not None; raises OSError on failure."""
    with replacing(target, "the model ") as temporary, no_bars():
        is_task_model = isinstance(model, TaskModel)
        weights = model.exported_weights() if is_task_model and weights is None else weights
        save_model(model.pretrained, temporary, weights)
        folders = [temporary, *(model.export_beside(temporary) if is_task_model else [])]
        if preprocessor is not None:
            tokenizer = getattr(preprocessor, "tokenizer", preprocessor)
            if longest := longest_text(model.pretrained):  # so that the tokenizer can truncate to it
                tokenizer.model_max_length = min(tokenizer.model_max_length, longest)
            for folder in folders:
                preprocessor.save_pretrained(folder)
        if (embedding := getattr(model, "embedding", None)) is not None:
            arguments = options_without_pooler(model.pretrained.base_model)
            write_embedding(temporary, embedding, model.pretrained.config.hidden_size, arguments)
        if task:
            objective = task["objective"] | (model.learnt_settings() if is_task_model else {})
            (temporary / TASK).write_text(json.dumps({**task, "objective": objective}, indent=1))
        (temporary / "README.md").write_text(card, encoding="utf-8")
        open_to_readers(temporary)
    return target


def open_to_readers(folder: Path) -> None:
    """Gives all files the mode of the model card, because libraries let only the owner read weights."""
    with suppress(PermissionError):  # of a file system without modes, such as FAT
        for file in filter(Path.is_file, folder.rglob("*")):
            file.chmod((folder / "README.md").stat().st_mode)
