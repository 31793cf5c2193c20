"""The trained model as a Hugging Face folder, with tokenizer and model card."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tiryns.runner.models.adapters import is_separate, save_model
from tiryns.runner.models.embedding.contrastive import loaded_without_pooler
from tiryns.runner.models.embedding.folder import write_embedding
from tiryns.runner.models.positions import longest_text
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.models.weights import no_bars
from tiryns.runner.run.folder import RunFolder
from tiryns.runner.run.model_folder import TASK, open_to_readers

INTERNAL = ("objective", "best_step")
"""Figures that the model card leaves out."""

MADE_BY = """
## What made it

`manifest.json` holds it by digest: code, packages, machine, config, data, order, what it began with, and each file here.
`tiryns verify <this folder>` tells whether any of them was changed.
"""

OF_MODEL = """\
from transformers import {auto}, {loader}

{kind} = {auto}.from_pretrained("<this folder>")
model = {loader}.from_pretrained("<this folder>"{trust})
"""

OF_ADAPTER = """\
from peft import PeftConfig, PeftModel
from transformers import AutoConfig, {auto}, {loader}

{kind} = {auto}.from_pretrained("<this folder>")
config = AutoConfig.from_pretrained("<this folder>"{trust})
base = PeftConfig.from_pretrained("<this folder>").base_model_name_or_path
model = {loader}.from_pretrained(base, config=config{trust})
model = PeftModel.from_pretrained(model, "<this folder>")
"""
"""How a model card says that the folder is loaded."""

PIPELINES = {
    "ForSequenceClassification": ("text-classification", '"a text", truncation=True'),
    "ForTokenClassification": ("token-classification", '"a text"'),
    "ForMaskedLM": ("fill-mask", 'f"a {tokenizer.mask_token} text", tokenizer_kwargs={"truncation": True}'),
}
"""The task of transformers' pipeline for each head, and what it is asked; a pipeline truncates where it is told to."""

PREDICTION = """
from transformers import pipeline

predict = pipeline("{task}", model=model, tokenizer=tokenizer)
print(predict({asked}))
"""
"""How a model card shows a prediction."""

TRUNCATED = """
Without `truncation` a pipeline fails at a text that is longer than the model reads ({longest:,} tokens).
"""

VECTORS = """
As a folder of sentence-transformers, with its pooling{prompts}:

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("<this folder>"{trust})
vectors = model.encode(["a text", "another one"])
```
"""

# what the hub reads of a model card
ABOUT = "library_name: {library}\ntags: [tiryns]"
ABOUT_VECTORS = """library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [tiryns, sentence-transformers, feature-extraction, sentence-similarity]"""


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
    or processor; `weights` are given where the model's own are in shards; `task` holds the settings for `tiryns predict`.

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
            own = isinstance(model, TaskModel)
            weights = model.exported_weights() if own and weights is None else weights
            save_model(model.pretrained, temporary, weights)
            folders = [temporary, *(model.export_beside(temporary) if own else [])]
        if preprocessor is not None:
            tokenizer = getattr(preprocessor, "tokenizer", preprocessor)
            if longest := longest_text(model.pretrained):  # so that the tokenizer can truncate to it
                tokenizer.model_max_length = min(tokenizer.model_max_length, longest)
            for folder in folders:
                preprocessor.save_pretrained(folder)
        if (embedding := getattr(model, "embedding", None)) is not None:
            arguments = loaded_without_pooler(model.pretrained.base_model)
            write_embedding(temporary, embedding, model.pretrained.config.hidden_size, arguments)
        if task:
            (temporary / TASK).write_text(json.dumps(task, indent=1))
        (temporary / "README.md").write_text(card)
        open_to_readers(temporary)
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
    made_by = getattr(model, "note", "") + (MADE_BY if with_manifest else "")
    auto = type(model.pretrained)._auto_class  # of one whose code is exported with it
    loader, trust = (auto, ", trust_remote_code=True") if auto else (name, "")
    apart = is_separate(model.pretrained)
    use, truncated = _usage(model.pretrained, preprocessor, loader, trust)
    about, vectors = ABOUT.format(library="peft" if apart else "transformers"), ""
    if (embedding := getattr(model, "embedding", None)) is not None:
        prompts = " and prompts" if embedding.prompts else ""
        about, vectors = ABOUT_VECTORS, VECTORS.format(prompts=prompts, trust=trust)
    return f"""---
{about}
---

# {name}, {model.describe()}

Trained with Tiryns for {step:,} steps:

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
{use}```
{truncated}{vectors}
<details>
<summary>Config</summary>

```yaml
{config}```

</details>
"""


def _usage(pretrained: PreTrainedModel, preprocessor: Any, loader: str, trust: str) -> tuple[str, str]:
    """The code that loads a model and shows a prediction, and what is said of long texts."""
    kind = "tokenizer" if isinstance(preprocessor, PreTrainedTokenizerBase) else "processor"
    apart = is_separate(pretrained)
    use = OF_ADAPTER if apart else OF_MODEL
    use = use.format(kind=kind, auto=f"Auto{kind.title()}", loader=loader, trust=trust)
    head = next((head for head in PIPELINES if type(pretrained).__name__.endswith(head)), None)
    if not head or kind != "tokenizer" or apart:
        return use, ""
    task, asked = PIPELINES[head]
    longest = longest_text(pretrained)
    truncated = TRUNCATED.format(longest=longest) if longest and "truncation" in asked else ""
    return use + PREDICTION.format(task=task, asked=asked), truncated
