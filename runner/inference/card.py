"""The model card: what the hub reads of a model, what it is, how it is loaded, and what it says of an example."""

import json
import re
from contextlib import suppress
from itertools import islice
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from transformers import PreTrainedTokenizerBase

from tiryns.conf.values import Settings
from tiryns.runner.config.moved import begun_in, from_begin
from tiryns.runner.inference.hub_metadata import about, hub_data_sets, sources_of, task_of_head
from tiryns.runner.models.adapters import is_separate
from tiryns.runner.models.positions import longest_text
from tiryns.runner.patches.transformers import auto_class_of
from tiryns.runner.run.files import read_json
from tiryns.runner.run.folder import Run
from tiryns.runner.run.yaml_files import parsed

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

ASKED = {
    "text-classification": '"a text", truncation=True',
    "token-classification": '"a text"',
    "fill-mask": 'f"a {tokenizer.mask_token} text", tokenizer_kwargs={"truncation": True}',
}
"""What a pipeline is asked for an example; it truncates where it is told to."""

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

LONGEST_EXAMPLE = 300
"""Characters of the example's text."""


def model_card(
    model: Any, preprocessor: Any, run: Run, results: dict[str, float], step: int, with_manifest: bool = False
) -> str:
    """Returns the README of a model: metadata of the hub, what it is, figures, an example, usage, command and config."""
    name = type(model.pretrained).__name__
    command = (run.path / "command.txt").read_text().strip()
    shown = sorted((figure, value) for figure, value in results.items() if figure not in INTERNAL)
    figures = "\n".join(f"| {figure} | {value:.4f} |" for figure, value in shown)
    config = (run.path / "config.yaml").read_text()
    settings: Any = parsed(config) or {}
    if begun_in(run.path):  # a path of where the run was begun is no name of the hub
        settings = OmegaConf.to_container(from_begin(DictConfig(settings), run.path))
    made_by = getattr(model, "note", "") + (MADE_BY if with_manifest else "")
    auto = auto_class_of(model.pretrained)  # of one whose code is exported with it
    loader, trust = (auto, ", trust_remote_code=True") if auto else (name, "")
    use, truncated = _usage(model, preprocessor, loader, trust)
    embedding, vectors = getattr(model, "embedding", None), ""
    if embedding is not None:
        vectors = VECTORS.format(prompts=" and prompts" if embedding.prompts else "", trust=trust)
    metadata = about(model, run, settings, dict(shown))
    return f"""---
{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, default_flow_style=None).strip()}
---

# {name}, {model.describe()}

{sentence(model, metadata, step)}

```
{command}
```

| figure | value |
|---|---|
{figures}

Losses are per target (a token, an example, a question); cross-entropies are in nats.
{example(run, settings.get("data") or {})}{made_by}
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


def sentence(model: Any, metadata: dict[str, object], step: int) -> str:
    """Returns what the model is, in a sentence."""
    _, does = task_of_head(model)
    size = sum(weight.numel() for weight in model.pretrained.parameters())
    began = f" from {metadata['base_model']}" if "base_model" in metadata else ""
    config = model.pretrained.config
    labels = [str(label) for label in (getattr(config, "id2label", None) or {}).values()]
    said = ""
    if does in ("classifies texts", "labels the words of texts") and labels:
        said = f" as {', '.join(labels[:5])}{f' and {len(labels) - 5:,} more' if len(labels) > 5 else ''}"
    what = f"that {does}{said}" if does else "with a head of its own"
    return (
        f"A {config.model_type} model of {size / 1e6:,.1f} million parameters {what}, "
        f"trained{began} with Tiryns for {step:,} steps:"
    )


def example(run: Run, data: Settings) -> str:
    """Returns an example of what the model says of held-out data; empty without one.

    A card goes where its model goes, so only data that everybody has is quoted: of the hub, or made by this project.
    """
    sources = [*sources_of(data)]
    made_here = (
        str(s.get("_target_")).startswith("runner.data.demo") for s in sources if isinstance(s, dict)
    )
    if not sources or sum(made_here) + len([*hub_data_sets(data)]) < len(sources):
        return ""
    row = {}
    with suppress(OSError, ValueError), open(run.path / "predictions.jsonl") as lines_of_file:
        row = json.loads(next(lines_of_file, "{}"))
    pairs = [(name, value) for name, value in row.items() if name not in ("set", "id", "words", "tokens")]
    if not pairs:  # a held-out text with its masks, and what the model guesses for the first of them
        samples = read_json(run.path / "samples.json", {})
        text = next((text for texts in samples.values() for text in texts if isinstance(text, list)), [])
        if not text:
            return ""
        pairs = [("text", "".join(part if isinstance(part, str) else " [MASK]" for part in text))]
        for mask in islice((part for part in text if isinstance(part, dict)), 1):
            guesses = ", ".join(f"{word} {share:.2f}" for word, share in mask.get("guesses", []))
            pairs += [("first mask", mask.get("true", "").strip()), ("guesses", guesses)]
    lines = []
    for name, value in pairs:
        cell = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        cell = re.sub(r"\s+", " ", cell).replace("|", "\\|").replace("<", "&lt;")
        short = cell if len(cell) <= LONGEST_EXAMPLE else f"{cell[:LONGEST_EXAMPLE]} ..."
        lines.append(f"| {name} | {short} |")
    return "\n## An example\n\n| | |\n|---|---|\n" + "\n".join(lines) + "\n"


def _usage(model: Any, preprocessor: object, loader: str, trust: str) -> tuple[str, str]:
    """Returns the code that loads a model and shows a prediction, and what is said of long texts."""
    pretrained = model.pretrained
    kind = "tokenizer" if isinstance(preprocessor, PreTrainedTokenizerBase) else "processor"
    apart = is_separate(pretrained)
    use = OF_ADAPTER if apart else OF_MODEL
    use = use.format(kind=kind, auto=f"Auto{kind.title()}", loader=loader, trust=trust)
    task, _ = task_of_head(model)
    if (asked := ASKED.get(task)) is None or kind != "tokenizer" or apart:
        return use, ""
    longest = longest_text(pretrained)
    truncated = TRUNCATED.format(longest=longest) if longest and "truncation" in asked else ""
    return use + PREDICTION.format(task=task, asked=asked), truncated
