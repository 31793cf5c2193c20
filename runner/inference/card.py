"""The model card: what the hub reads of a model, what it is, how it is loaded, and what it says of an example."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.repocard import metadata_load
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tiryns.runner.models.adapters import is_separate
from tiryns.runner.models.positions import longest_text
from tiryns.runner.patches.transformers import auto_class_of
from tiryns.runner.run.files import read_json, read_text
from tiryns.runner.run.folder import RunFolder
from tiryns.runner.run.model_folder import model_folder, objective_of

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

HEADS = {
    "ForSequenceClassification": ("text-classification", "classifies texts"),
    "ForTokenClassification": ("token-classification", "labels the words of texts"),
    "ForQuestionAnswering": ("question-answering", "marks the answer to a question in a text"),
    "ForMultipleChoice": ("multiple-choice", "chooses one of several answers"),
    "ForMaskedLM": ("fill-mask", "predicts masked tokens"),
    "ForCausalLM": ("text-generation", "continues texts"),
    "LMHeadModel": ("text-generation", "continues texts"),
    "ForConditionalGeneration": ("image-text-to-text", "answers questions about images"),
}
"""The hub's task for each head of transformers, and what a model with it does."""

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

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
"""A model or a data set of the hub, with its owner."""

METRICS = (
    "accuracy", "f1", "macro_f1", "micro_f1", "exact_match", "spearman", "pearson", "mcc", "mse", "loss", "perplexity",
)  # fmt: skip
"""Figures that a leaderboard of the hub may show, by the last part of their names."""

LONGEST_EXAMPLE = 300
"""Characters of the example's text."""


def model_card(
    model: Any,
    preprocessor: Any,
    run: RunFolder,
    results: dict[str, float],
    step: int,
    with_manifest: bool = False,
) -> str:
    """Returns the README of a model: metadata of the hub, what it is, figures, an example, usage, command and config."""
    name = type(model.pretrained).__name__
    command = (run.path / "command.txt").read_text().strip()
    shown = sorted((figure, value) for figure, value in results.items() if figure not in INTERNAL)
    figures = "\n".join(f"| {figure} | {value:.4f} |" for figure, value in shown)
    config = (run.path / "config.yaml").read_text()
    settings: Any = yaml.safe_load(config) or {}
    made_by = getattr(model, "note", "") + (MADE_BY if with_manifest else "")
    auto = auto_class_of(model.pretrained)  # of one whose code is exported with it
    loader, trust = (auto, ", trust_remote_code=True") if auto else (name, "")
    use, truncated = _usage(model.pretrained, preprocessor, loader, trust)
    embedding, vectors = getattr(model, "embedding", None), ""
    if embedding is not None:
        prompts = " and prompts" if embedding.prompts else ""
        vectors = VECTORS.format(prompts=prompts, trust=trust)
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
{example(run)}{made_by}
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


def task_of_head(model: Any) -> tuple[str, str]:
    """Returns the hub's task of a model, and what it does; empty for a head of one's own."""
    if getattr(model, "embedding", None) is not None:
        return "sentence-similarity", "makes vectors of texts"
    if objective_of(model.pretrained.config):
        return "text-generation", "continues texts"
    name = type(model.pretrained).__name__
    return next((found for head, found in HEADS.items() if name.endswith(head)), ("", ""))


def about(model: Any, run: RunFolder, settings: dict[str, Any], figures: dict[str, float]) -> dict[str, Any]:
    """Returns what the hub reads of a card, as far as it is known: nothing is guessed.

    License and language are those of the model that it began with; a model index needs a task and a data set.
    """
    task, _ = task_of_head(model)
    vectors = task == "sentence-similarity"
    base = str((settings.get("model") or {}).get("name_or_path") or "")
    theirs = _metadata_of(base)
    named = base if HUB_NAME.fullmatch(base) and not Path(base).exists() else theirs.get("base_model")
    tags = ["tiryns", *(["sentence-transformers", "feature-extraction", task] if vectors else [])]
    library = (
        "sentence-transformers" if vectors else "peft" if is_separate(model.pretrained) else "transformers"
    )
    data = list(dict.fromkeys(_data_sets(settings.get("data") or {})))
    known = {
        "library_name": library,
        "pipeline_tag": task,
        "license": theirs.get("license"),
        "language": theirs.get("language"),
        "base_model": named,
        "datasets": data,
        "tags": tags,
        "metrics": sorted({name.rpartition("/")[2] for name in figures} & {*METRICS} - {"loss"}),
    }
    measured = _index(run.name, task, data, figures)
    return {name: value for name, value in {**known, "model-index": measured}.items() if value}


def sentence(model: Any, metadata: dict[str, Any], step: int) -> str:
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


def example(run: RunFolder) -> str:
    """Returns an example of what the model says of held-out data, as the run has left it; empty without one."""
    first = next(iter(read_text(run.path / "predictions.jsonl").splitlines()), "")
    row: Any = json.loads(first) if first.startswith("{") and first.endswith("}") else {}
    pairs = [(name, value) for name, value in row.items() if name not in ("set", "id", "words", "tokens")]
    pairs = pairs or [*_guessed(read_json(run.path / "samples.json", {}))]
    if not pairs:
        return ""
    lines = (f"| {name} | {_cell(value)} |" for name, value in pairs)
    return "\n## An example\n\n| | |\n|---|---|\n" + "\n".join(lines) + "\n"


def _guessed(samples: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """A held-out text with its masks, and what the model guesses for the first of them."""
    for text in islice((text for texts in samples.values() for text in texts if isinstance(text, list)), 1):
        yield "text", "".join(part if isinstance(part, str) else " [MASK]" for part in text)
        for mask in islice((part for part in text if isinstance(part, dict)), 1):
            yield "first mask", mask.get("true", "").strip()
            yield "guesses", ", ".join(f"{word} {share:.2f}" for word, share in mask.get("guesses", []))


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= LONGEST_EXAMPLE else f"{text[:LONGEST_EXAMPLE]} ..."


def _metadata_of(base: str) -> dict[str, Any]:
    """What the card of a model says, that of a folder or of one that was downloaded; empty without a card."""
    folder = Path(model_folder(base)) if base else Path()
    card = folder / "README.md" if base and folder.is_dir() else None
    if card is None and HUB_NAME.fullmatch(base):
        found = try_to_load_from_cache(base, "README.md")
        card = Path(found) if isinstance(found, str) else None
    try:
        found_in: Any = metadata_load(card) if card is not None and card.is_file() else None
    except (ValueError, yaml.YAMLError, OSError):
        return {}
    return found_in if isinstance(found_in, dict) else {}


def _data_sets(data: dict[str, Any]) -> Iterator[str]:
    """The data sets of the hub that a config's data names."""
    sources = [data.get(name) for name in ("source", "train", "test")]
    sources += [part.get("source") for part in (data.get("mixture") or {}).values() if isinstance(part, dict)]
    for value in (
        value for source in sources for value in (source if isinstance(source, list) else [source])
    ):
        name = str(value or "").partition("@")[0].partition(":")[0]
        if HUB_NAME.fullmatch(name) and not Path(name).exists() and not Path(name).suffix:
            yield name


def _index(name: str, task: str, data: list[str], figures: dict[str, float]) -> list[dict[str, Any]]:
    """The hub's index of figures, for the data set they were measured on; empty where task or data set have no name."""
    measured = [
        {"type": figure.rpartition("/")[2], "name": figure, "value": round(value, 6)}
        for figure, value in figures.items()
        if figure.rpartition("/")[2] in METRICS
    ]
    if not (task and data and measured):
        return []
    result = {"task": {"type": task}, "dataset": {"name": data[0], "type": data[0]}, "metrics": measured}
    return [{"name": name, "results": [result]}]


def _usage(pretrained: PreTrainedModel, preprocessor: Any, loader: str, trust: str) -> tuple[str, str]:
    """Returns the code that loads a model and shows a prediction, and what is said of long texts."""
    kind = "tokenizer" if isinstance(preprocessor, PreTrainedTokenizerBase) else "processor"
    apart = is_separate(pretrained)
    use = OF_ADAPTER if apart else OF_MODEL
    use = use.format(kind=kind, auto=f"Auto{kind.title()}", loader=loader, trust=trust)
    task = next((found for head, (found, _) in HEADS.items() if type(pretrained).__name__.endswith(head)), "")
    if (asked := ASKED.get(task)) is None or kind != "tokenizer" or apart:
        return use, ""
    longest = longest_text(pretrained)
    truncated = TRUNCATED.format(longest=longest) if longest and "truncation" in asked else ""
    return use + PREDICTION.format(task=task, asked=asked), truncated
