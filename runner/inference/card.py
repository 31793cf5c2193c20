"""The model card: the known metadata for the hub, a description of the model, how to load it, and an example."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.repocard import metadata_load
from omegaconf import DictConfig, OmegaConf
from transformers import PreTrainedTokenizerBase

from tiryns.conf.values import Settings
from tiryns.runner.config.run_config import begun_in, from_begin
from tiryns.runner.models.adapters import is_separate
from tiryns.runner.models.positions import longest_text
from tiryns.runner.models.wrapped import objective_of
from tiryns.runner.patches.transformers import auto_class_of
from tiryns.runner.run.files import read_json
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import NoModel, model_folder
from tiryns.runner.run.yaml_files import parse_yaml

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
"""The hub's task for each head of transformers, and what a model with this head does."""

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
"""Pattern of the hub's names of models and data sets, `owner/name`."""

METRICS = (
    "accuracy", "f1", "precision", "recall", "macro_f1", "micro_f1", "exact_match", "spearman", "pearson", "mcc", "mse",
    "loss", "perplexity",
)  # fmt: skip
"""Metrics for leaderboards of the hub, without the set in their names; `entity_f1` is listed as `f1`, as in seqeval."""

MADE_BY = """
## What made it

`manifest.json` holds records or digests of code, packages, machine, config, data, order, first weights, and each file.
`tiryns verify <this folder>` reports whether the manifest or any file was changed.
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

ASKED = {
    "text-classification": '"a text", truncation=True',
    "token-classification": '"a text"',
    "fill-mask": 'f"a {tokenizer.mask_token} text", tokenizer_kwargs={"truncation": True}',
}
"""Arguments of the pipeline call in the card's example, by task. With `truncation` it cuts texts that are too long."""

PREDICTION = """
from transformers import pipeline

predict = pipeline("{task}", model=model, tokenizer=tokenizer)
print(predict({asked}))
"""

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


def task_of_head(model: Any) -> tuple[str, str]:
    """Returns the hub's task for a model and a phrase such as `classifies texts`; both are empty for a custom head."""
    config = model.pretrained.config
    if getattr(model, "embedding", None) is not None:
        return "sentence-similarity", "makes vectors of texts"
    if objective_of(config):
        return "text-generation", "continues texts"
    if getattr(config, "problem_type", None) == "regression":
        return "text-classification", "gives texts numbers"
    # one that says so to sentence-transformers scores pairs of texts
    if getattr(config, "sentence_transformers", None) is not None and config.num_labels == 1:
        return "text-ranking", "ranks texts for a query"
    name = type(model.pretrained).__name__
    return next((pair for head, pair in HEADS.items() if name.endswith(head)), ("", ""))


def about(model: Any, run: Run, settings: Settings, figures: dict[str, float]) -> dict[str, object]:
    """Returns the card's metadata for the hub, without unknown entries.

    License and language come from the card of the base model. A model index needs a task, a data set and metrics.
    """
    task, _ = task_of_head(model)
    kinds = {
        "sentence-similarity": ["sentence-transformers", "feature-extraction", task],
        "text-ranking": ["sentence-transformers", "cross-encoder", "reranker"],
    }
    base = str((settings.get("model") or {}).get("name_or_path") or "")
    base_metadata = _metadata_of(base)
    base_model = (
        base if HUB_NAME.fullmatch(base) and not Path(base).exists() else base_metadata.get("base_model")
    )
    library = "peft" if is_separate(model.pretrained) else "transformers"
    sources = [*sources_of(settings.get("data") or {})]
    data = list(dict.fromkeys(names := [*hub_data_sets(settings.get("data") or {})]))
    types = {name: name.rpartition("/")[2].removeprefix("entity_") for name in figures}
    metadata = {
        "library_name": "sentence-transformers" if task in kinds else library, "pipeline_tag": task,
        "license": base_metadata.get("license"), "language": base_metadata.get("language"), "base_model": base_model,
        "datasets": data, "tags": ["tiryns", *kinds.get(task, [])],
        "metrics": sorted({*types.values()} & {*METRICS} - {"loss"}),
    }  # fmt: skip
    pairs = [(name, value) for name, value in figures.items() if types[name] in METRICS]
    metrics = [{"type": types[name], "name": name, "value": round(value, 6)} for name, value in pairs]
    if task and metrics and len(data) == 1 and len(names) == len(sources):  # measured on nothing else
        data_set = {"name": data[0], "type": data[0]}
        result = {"task": {"type": task}, "dataset": data_set, "metrics": metrics}
        metadata["model-index"] = [{"name": run.name, "results": [result]}]
    return {name: value for name, value in metadata.items() if value}


def _metadata_of(base: str) -> dict[str, object]:
    """Returns the metadata in the card of a model in a folder or in the cache of the hub; empty without a card."""
    front_matter: object = None
    with suppress(NoModel, ValueError, yaml.YAMLError, OSError):  # of a run whose model is gone by now, too
        card = Path(model_folder(base), "README.md") if base else Path()
        if HUB_NAME.fullmatch(base) and not card.parent.is_dir():
            cache_path = try_to_load_from_cache(base, "README.md")
            card = Path(cache_path) if isinstance(cache_path, str) else card
        front_matter = metadata_load(card) if card.is_file() else None
    return front_matter if isinstance(front_matter, dict) else {}


def sources_of(data: Settings) -> Iterator[object]:
    """Yields the sources of a config's data; each is a name or a config node."""
    values = [data.get(name) for name in ("source", "train", "validation", "test")]
    values += [part.get("source") for part in (data.get("mixture") or {}).values() if isinstance(part, dict)]
    for value in values:
        yield from filter(None, value if isinstance(value, list) else [value])


def hub_data_sets(data: Settings) -> Iterator[str]:
    """Yields the names of the hub's data sets among the sources of a config's data."""
    for value in sources_of(data):
        name = str(value).partition("@")[0].partition(":")[0]
        if HUB_NAME.fullmatch(name) and not Path(name).exists() and not Path(name).suffix:
            yield name


def model_card(
    model: Any, preprocessor: Any, run: Run, results: dict[str, float], step: int, with_manifest: bool = False
) -> str:
    """Returns the README of a model: metadata of the hub, description, metrics, an example, usage, command and config."""
    name = type(model.pretrained).__name__
    command = run.command
    pairs = sorted(
        (figure, value) for figure, value in results.items() if figure not in ("objective", "best_step")
    )
    figures = "\n".join(f"| {figure} | {value:.4f} |" for figure, value in pairs)
    config = (run.path / "config.yaml").read_text(encoding="utf-8")
    settings: Any = parse_yaml(config) or {}
    if begun_in(run.path):  # a path of where the run was begun is no name of the hub
        settings = OmegaConf.to_container(from_begin(DictConfig(settings), run.path))
    credit = getattr(model, "note", "") + (MADE_BY if with_manifest else "")
    auto = auto_class_of(model.pretrained)  # of one whose code is exported with it
    loader, trust = (auto, ", trust_remote_code=True") if auto else (name, "")
    use, truncation = _usage(model, preprocessor, loader, trust)
    embedding, vectors = getattr(model, "embedding", None), ""
    if embedding is not None:
        vectors = VECTORS.format(prompts=" and prompts" if embedding.prompts else "", trust=trust)
    metadata = about(model, run, settings, dict(pairs))
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
{example(run, settings.get("data") or {})}{credit}
## Use

```python
{use}```
{truncation}{vectors}
<details>
<summary>Config</summary>

```yaml
{config}```

</details>
"""


def sentence(model: Any, metadata: dict[str, object], step: int) -> str:
    """Returns a sentence that describes the model."""
    _, does = task_of_head(model)
    size = sum(weight.numel() for weight in model.pretrained.parameters())
    began = f" from {metadata['base_model']}" if "base_model" in metadata else ""
    config = model.pretrained.config
    labels = [str(label) for label in (getattr(config, "id2label", None) or {}).values()]
    said = ""
    if does in ("classifies texts", "labels the words of texts") and labels:
        said = f" as {', '.join(labels[:5])}{f' and {len(labels) - 5:,} more' if len(labels) > 5 else ''}"
    clause = f"that {does}{said}" if does else "with a head of its own"
    return (
        f"A {config.model_type} model of {size / 1e6:,.1f} million parameters {clause}, "
        f"trained{began} with Tiryns for {step:,} steps:"
    )


def example(run: Run, data: Settings) -> str:
    """Returns a section with one prediction for held-out data; empty without one, or if the data is not public.

    A card is published with its model, so it quotes only public data: data of the hub, or made by this project.
    """
    sources = [*sources_of(data)]
    is_demo = (str(s.get("_target_")).startswith("runner.data.demo") for s in sources if isinstance(s, dict))
    if not sources or sum(is_demo) + len([*hub_data_sets(data)]) < len(sources):
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
    lines = ""
    for name, value in pairs:
        cell = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        cell = re.sub(r"\s+", " ", cell).replace("|", "\\|").replace("<", "&lt;")
        short = cell if len(cell) <= 300 else f"{cell[:300]} ..."
        lines += f"| {name} | {short} |\n"
    return f"\n## An example\n\n| | |\n|---|---|\n{lines}"


def _usage(model: Any, preprocessor: object, loader: str, trust: str) -> tuple[str, str]:
    """Returns the code that loads a model and shows a prediction, and a note on long texts."""
    pretrained_model = model.pretrained
    kind = "tokenizer" if isinstance(preprocessor, PreTrainedTokenizerBase) else "processor"
    apart = is_separate(pretrained_model)
    use = OF_ADAPTER if apart else OF_MODEL
    use = use.format(kind=kind, auto=f"Auto{kind.title()}", loader=loader, trust=trust)
    task, _ = task_of_head(model)
    if (arguments := ASKED.get(task)) is None or kind != "tokenizer" or apart:
        return use, ""
    longest = longest_text(pretrained_model)
    truncation = TRUNCATED.format(longest=longest) if longest and "truncation" in arguments else ""
    return use + PREDICTION.format(task=task, asked=arguments), truncation
