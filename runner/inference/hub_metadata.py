"""What the hub reads of a model card, as far as it is known: nothing is guessed."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.repocard import metadata_load

from tiryns.conf.values import Settings
from tiryns.runner.models.adapters import is_separate
from tiryns.runner.models.pretraining.objective_field import objective_of
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import NoModel, model_folder

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

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
"""A model or a data set of the hub, with its owner."""

METRICS = (
    "accuracy", "f1", "precision", "recall", "macro_f1", "micro_f1", "exact_match", "spearman", "pearson", "mcc", "mse",
    "loss", "perplexity",
)  # fmt: skip
"""Metrics that a leaderboard of the hub may show, by the last part of their names, of entities as of seqeval."""


def task_of_head(model: Any) -> tuple[str, str]:
    """Returns the hub's task of a model, and what it does; empty for a head of one's own."""
    if getattr(model, "embedding", None) is not None:
        return "sentence-similarity", "makes vectors of texts"
    if objective_of(model.pretrained.config):
        return "text-generation", "continues texts"
    if getattr(model.pretrained.config, "problem_type", None) == "regression":
        return "text-classification", "gives texts numbers"
    config = model.pretrained.config  # one that says so to sentence-transformers scores pairs of texts
    if getattr(config, "sentence_transformers", None) is not None and config.num_labels == 1:
        return "text-ranking", "ranks texts for a query"
    name = type(model.pretrained).__name__
    return next((found for head, found in HEADS.items() if name.endswith(head)), ("", ""))


def about(model: Any, run: Run, settings: Settings, figures: dict[str, float]) -> dict[str, object]:
    """Returns what the hub reads of a card, as far as it is known: nothing is guessed.

    License and language are those of the model that it began with; a model index needs a task and a data set.
    """
    task, _ = task_of_head(model)
    kinds = {
        "sentence-similarity": ["sentence-transformers", "feature-extraction", task],
        "text-ranking": ["sentence-transformers", "cross-encoder", "reranker"],
    }
    base = str((settings.get("model") or {}).get("name_or_path") or "")
    theirs = _metadata_of(base)
    named = base if HUB_NAME.fullmatch(base) and not Path(base).exists() else theirs.get("base_model")
    library = "peft" if is_separate(model.pretrained) else "transformers"
    data = list(dict.fromkeys(hub_data_sets(settings.get("data") or {})))
    known = {
        "library_name": "sentence-transformers" if task in kinds else library,
        "pipeline_tag": task,
        "license": theirs.get("license"),
        "language": theirs.get("language"),
        "base_model": named,
        "datasets": data,
        "tags": ["tiryns", *kinds.get(task, [])],
        "metrics": sorted({*map(_kind, figures)} & {*METRICS} - {"loss"}),
    }
    measured = [
        {"type": _kind(figure), "name": figure, "value": round(value, 6)}
        for figure, value in figures.items()
        if _kind(figure) in METRICS
    ]
    if task and data and measured:  # the figures of the data set that they were measured on
        named = {"name": data[0], "type": data[0]}
        result = {"task": {"type": task}, "dataset": named, "metrics": measured}
        known["model-index"] = [{"name": run.name, "results": [result]}]
    return {name: value for name, value in known.items() if value}


def _metadata_of(base: str) -> dict[str, object]:
    """What the card of a model says, that of a folder or of one that was downloaded; empty without a card."""
    folder = Path()
    with suppress(NoModel):  # of a run whose model is gone by now
        folder = Path(model_folder(base)) if base else folder
    card = folder / "README.md" if folder != Path() and folder.is_dir() else None
    if card is None and HUB_NAME.fullmatch(base):
        found = try_to_load_from_cache(base, "README.md")
        card = Path(found) if isinstance(found, str) else None
    try:
        found_in: object = metadata_load(card) if card is not None and card.is_file() else None
    except (ValueError, yaml.YAMLError, OSError):
        return {}
    return found_in if isinstance(found_in, dict) else {}


def sources_of(data: Settings) -> Iterator[object]:
    """What a config's data is read from: names, and nodes of sources."""
    given = [data.get(name) for name in ("source", "train", "validation", "test")]
    given += [part.get("source") for part in (data.get("mixture") or {}).values() if isinstance(part, dict)]
    for value in given:
        yield from filter(None, value if isinstance(value, list) else [value])


def hub_data_sets(data: Settings) -> Iterator[str]:
    """The data sets of the hub that a config's data names."""
    for value in sources_of(data):
        name = str(value).partition("@")[0].partition(":")[0]
        if HUB_NAME.fullmatch(name) and not Path(name).exists() and not Path(name).suffix:
            yield name


def _kind(figure: str) -> str:
    """The metric of a figure, as the hub calls it."""
    return figure.rpartition("/")[2].removeprefix("entity_")
