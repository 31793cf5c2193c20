"""The trained model as a Hugging Face folder, with tokenizer and model card."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from iolaus.runner.models.positions import longest_text
from iolaus.runner.run.folder import RunFolder
from iolaus.runner.run.model_folder import TASK

INTERNAL = ("objective", "best_step")
"""Figures that the model card leaves out."""


def export_model(
    module: Any,
    preprocessor: Any,
    folder: RunFolder,
    results: dict[str, float],
    weights: dict[str, Any] | None,
    task: dict[str, Any],
) -> Path | None:
    """Writes `model/` in the run folder, which `AutoModel...from_pretrained` loads without this project.

    Args:
        module: A module of this project, or a LightningModule, of which the model of transformers in it is written.
        preprocessor: The tokenizer or processor, written to the same folder.
        folder: The run folder.
        results: The figures for the model card.
        weights: The model's weights where its own are in shards.
        task: The settings of its task for `iolaus predict`; empty without a task.

    Raises:
        OSError: the folder cannot be written or is full.
    """
    model, evaluated = getattr(module, "model", None), getattr(module, "evaluation_weights", nullcontext)
    if not hasattr(model, "pretrained"):
        if (pretrained := exported_model(module)) is None:
            return None
        model = PlainModel(pretrained)
    card = model_card(model, preprocessor, folder, results, module.trainer.global_step)
    with evaluated():
        return write_model(model, preprocessor, folder.path / "model", card, weights, task)


class PlainModel(NamedTuple):
    """A model of transformers with the attributes of a task model that the export reads."""

    pretrained: PreTrainedModel

    def describe(self) -> str:
        """The architecture."""
        return f"of the architecture {self.pretrained.config.model_type}"


def exported_model(module: nn.Module) -> PreTrainedModel | None:
    """The outermost model of transformers in a module; None where there is none."""
    return next((part for part in module.modules() if isinstance(part, PreTrainedModel)), None)


def write_model(
    model: Any,
    preprocessor: Any,
    target: Path,
    card: str,
    weights: dict[str, Any] | None,
    task: dict[str, Any],
) -> Path:
    """Writes or replaces the folder `target` atomically; `preprocessor` may be None.

    Raises:
        OSError: it cannot be written, or the disk is full.
    """
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        model.pretrained.save_pretrained(temporary, state_dict=weights)
        if preprocessor is not None:
            tokenizer, longest = (
                getattr(preprocessor, "tokenizer", preprocessor),
                longest_text(model.pretrained),
            )
            if longest is not None:  # so that the tokenizer can truncate to it
                tokenizer.model_max_length = min(tokenizer.model_max_length, longest)
            preprocessor.save_pretrained(temporary)
        if task:
            (temporary / TASK).write_text(json.dumps(task, indent=1))
        (temporary / "README.md").write_text(card)
        for file in temporary.iterdir():  # the library writes weights that only their owner can read
            file.chmod((temporary / "README.md").stat().st_mode)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise OSError(f"cannot export the model to {str(target)!r}: {error.strerror or error}") from error
    return target


def model_card(
    wrapped: Any, preprocessor: Any, folder: RunFolder, results: dict[str, float], step: int
) -> str:
    """The README of a model: its architecture, command, figures, usage and config."""
    model = wrapped.pretrained
    command = (folder.path / "command.txt").read_text().strip()
    shown = sorted((name, value) for name, value in results.items() if name not in INTERNAL)
    figures = "\n".join(f"| {name} | {value:.4f} |" for name, value in shown)
    config = (folder.path / "config.yaml").read_text()
    kind = "tokenizer" if isinstance(preprocessor, PreTrainedTokenizerBase) else "processor"
    return f"""---
library_name: transformers
tags: [iolaus]
---

# {type(model).__name__}, {wrapped.describe()}

Trained with Iolaus for {step:,} steps:

```
{command}
```

| figure | value |
|---|---|
{figures}

Losses are per target (a token, an example, a question); cross-entropies are in nats.

## Use

```python
from transformers import Auto{kind.title()}, {type(model).__name__}

{kind} = Auto{kind.title()}.from_pretrained("<this folder>")
model = {type(model).__name__}.from_pretrained("<this folder>")
```

## Config

```yaml
{config}```
"""
