"""The trained model as a Hugging Face folder, with tokenizer and model card."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from iolaus.runner.models.positions import longest_text
from iolaus.runner.models.weights import no_bars
from iolaus.runner.run.folder import RunFolder
from iolaus.runner.run.model_folder import TASK

INTERNAL = ("objective", "best_step")
"""Figures that the model card leaves out."""

MADE_BY = """
## What made it

`manifest.json` holds it by digest: code, packages, machine, config, data, order, what it began with, and each file here.
`iolaus verify <this folder>` tells whether any of them was changed.
"""


def export_model(
    module: Any,
    preprocessor: Any,
    folder: RunFolder,
    results: dict[str, float],
    weights: dict[str, Any] | None,
    task: dict[str, Any],
) -> Path | None:
    """Writes `model/` in the run folder, which `AutoModel...from_pretrained` loads without this project.

    Of a plain LightningModule, the model of transformers in it is written, if there is one. `preprocessor` is a tokenizer
    or processor; `weights` are given where the model's own are in shards; `task` holds the settings for `iolaus predict`.

    Raises:
        OSError: the folder cannot be written or is full.
    """
    model, evaluated = getattr(module, "model", None), getattr(module, "evaluation_weights", nullcontext)
    if not hasattr(model, "pretrained"):
        if (pretrained := exported_model(module)) is None:
            return None
        architecture = f"of the architecture {pretrained.config.model_type}"
        model = SimpleNamespace(pretrained=pretrained, describe=lambda: architecture)
    has_manifest = (folder.path / "manifest.json").is_file()
    card = model_card(model, preprocessor, folder, results, module.trainer.global_step, has_manifest)
    with evaluated():
        return write_model(model, preprocessor, folder.path / "model", card, weights, task)


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
    """Writes or replaces the folder `target` atomically, with `preprocessor` if not None; raises OSError on failure."""
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with no_bars():
            model.pretrained.save_pretrained(temporary, state_dict=weights)
        if preprocessor is not None:
            tokenizer = getattr(preprocessor, "tokenizer", preprocessor)
            if longest := longest_text(model.pretrained):  # so that the tokenizer can truncate to it
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
    model: Any,
    preprocessor: Any,
    run: RunFolder,
    results: dict[str, float],
    step: int,
    with_manifest: bool = False,
) -> str:
    """The README of a model: its architecture, command, figures, usage and config."""
    name = type(model.pretrained).__name__
    command = (run.path / "command.txt").read_text().strip()
    shown = sorted((figure, value) for figure, value in results.items() if figure not in INTERNAL)
    figures = "\n".join(f"| {figure} | {value:.4f} |" for figure, value in shown)
    config = (run.path / "config.yaml").read_text()
    made_by = MADE_BY if with_manifest else ""
    auto = type(model.pretrained)._auto_class  # of one whose code is exported with it
    loader, trust = (auto, ", trust_remote_code=True") if auto else (name, "")
    kind = "tokenizer" if isinstance(preprocessor, PreTrainedTokenizerBase) else "processor"
    return f"""---
library_name: transformers
tags: [iolaus]
---

# {name}, {model.describe()}

Trained with Iolaus for {step:,} steps:

```
{command}
```

| figure | value |
|---|---|
{figures}

Losses are per target (a token, an example, a question); cross-entropies are in nats.
{made_by}
## Use

```python
from transformers import Auto{kind.title()}, {loader}

{kind} = Auto{kind.title()}.from_pretrained("<this folder>")
model = {loader}.from_pretrained("<this folder>"{trust})
```

## Config

```yaml
{config}```
"""
