"""The trained model as a Hugging Face folder, with tokenizer and model card."""

import json
import shutil
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from iolaus.runner.run.folder import RunFolder
from iolaus.runner.run.model_folder import TASK

INTERNAL = ("objective", "best_step")
"""Figures that say how the run went, not what the model is."""


def export_model(
    module: Any,
    preprocessor: Any,
    folder: RunFolder,
    results: dict[str, float],
    weights: dict[str, Any] | None,
    task: dict[str, Any],
) -> Path:
    """Writes `model/` in the run folder; `AutoModel...from_pretrained` loads it with nothing of this project.

    `preprocessor`, the tokenizer or the processor of texts and images, goes beside it.
    `weights` stand in for the model's own where those are in shards; `task` is noted if there is one. The folder
    appears whole or not at all.

    Raises:
        OSError: the folder cannot be written or is full.
    """
    card = model_card(module.model, preprocessor, folder, results, module.trainer.global_step)
    with module.evaluation_weights():
        return write_model(module.model, preprocessor, folder.path / "model", card, weights, task)


def write_model(
    model: Any,
    preprocessor: Any,
    target: Path,
    card: str,
    weights: dict[str, Any] | None,
    task: dict[str, Any],
) -> Path:
    """Writes the folder `target`, which appears whole or not at all and takes the place of one that is there.

    Without a `preprocessor` it holds the model alone.

    Raises:
        OSError: it cannot be written, or the disk is full.
    """
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        model.pretrained.save_pretrained(temporary, state_dict=weights)
        if preprocessor is not None:
            know_longest_text(preprocessor, model.pretrained)
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


def know_longest_text(preprocessor: Any, pretrained: Any) -> None:
    """Tells a tokenizer, or that of a processor, how long a text the model can read, so that it can truncate to that."""
    from iolaus.runner.models.positions import longest_text

    tokenizer, longest = getattr(preprocessor, "tokenizer", preprocessor), longest_text(pretrained)
    if longest is not None:
        tokenizer.model_max_length = min(tokenizer.model_max_length, longest)


def model_card(
    wrapped: Any, preprocessor: Any, folder: RunFolder, results: dict[str, float], step: int
) -> str:
    """The card: what the model is, what it reached, how it was made and how to load it."""
    model = wrapped.pretrained
    command = (folder.path / "command.txt").read_text().strip()
    figures = "\n".join(
        f"| {name} | {value:.4f} |" for name, value in sorted(results.items()) if name not in INTERNAL
    )
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
