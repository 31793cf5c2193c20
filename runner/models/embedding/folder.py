"""Reads and writes the files of sentence-transformers that state how texts become vectors, without that library.

The model's folder has `modules.json`, `sentence_bert_config.json` (the longest text), `1_Pooling/config.json`,
`2_Normalize/config.json` if vectors have unit length, and `config_sentence_transformers.json` (prompts). They are written
with the names of version 5, which version 6 reads as well.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig

from tiryns.runner import log
from tiryns.runner.run.model_folder import model_folder

MODULES, LENGTH, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"

POOLINGS = {
    "cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens", "lasttoken": "pooling_mode_lasttoken",
}  # fmt: skip
"""The config field of each pooling in version 5, by the pooling's name in version 6."""

OURS = ("cls", "mean", "max")
"""Poolings that `pool` knows."""

ABSENT = {
    f"_raise_exceptions_for_{flag}": False for flag in ("missing_entries", "connection_errors", "gated_repo")
}
"""Arguments of `cached_file` that make it return None for a file that is missing or cannot be reached."""

PASSAGE = ("passage", "document", "corpus")
"""Names of the prompt of passages; sentence-transformers looks for `document` first."""


class Embedding(NamedTuple):
    """How a text becomes a vector: prompt and text are truncated to `max_length` tokens, encoded, pooled, and scaled.

    Example:
        >>> Embedding("mean", prompts=prompts_of("query: ", "")).prompt("query")
        'query: '
    """

    pooling: str
    normalised: bool = False
    """Whether vectors have unit length."""
    prompts: Mapping[str, str] = {}
    """Prompts before texts, by name."""
    default_prompt: str | None = None
    """The name of the prompt for texts whose prompt is not named."""
    max_length: int | None = None
    """Longest text in tokens; None for the tokenizer's limit."""
    similarity: str = "cosine"
    """How vectors are compared."""
    max_query_length: int | None = None
    """Longest query in tokens; None for `max_length`."""

    def prompt(self, name: str | None) -> str:
        """Returns the prompt of a name (None: default); empty if a query or passage has none; ValueError for others."""
        if name is None:
            return self.prompts.get(self.default_prompt, "") if self.default_prompt else ""
        same_as = (name, *PASSAGE) if name in PASSAGE else (name,)
        prompts = [self.prompts[other] for other in same_as if other in self.prompts]
        if not prompts and name not in ("query", *PASSAGE):
            names = ", ".join(sorted({"query", "passage", *self.prompts}))
            raise ValueError(f"prompt={name} is none of the model's: expected {names}")
        return next(iter(filter(None, prompts)), "")


def prompts_of(query: str, passage: str) -> dict[str, str]:
    """Returns the prompts by the names that sentence-transformers uses; empty if both are empty."""
    return {"query": query, "document": passage, "passage": passage} if query or passage else {}


def write_embedding(
    folder: Path, embedding: Embedding, width: int, model_arguments: Mapping[str, object]
) -> None:
    """Turns a folder with a model of hidden size `width` and a tokenizer into a folder of sentence-transformers.

    `model_arguments` are the arguments with which sentence-transformers loads the model.
    """
    poolings = {field: name == embedding.pooling for name, field in POOLINGS.items()}
    pooling: dict[str, object] = {"word_embedding_dimension": width, **poolings, "include_prompt": True}
    vector = "sentence_embedding"
    modules: dict[str, dict[str, object]] = {"models.Transformer": {}, "models.Pooling": pooling}
    if embedding.normalised:
        modules["models.Normalize"] = {"module_input_name": vector, "module_output_name": vector}
    write_modules(folder, "SentenceTransformer", modules, embedding, model_arguments)


def write_modules(
    folder: Path,
    kind: str,
    modules: Mapping[str, Mapping[str, object]],
    embedding: Embedding,
    model_arguments: Mapping[str, object],
) -> None:
    """Writes the files of a folder of sentence-transformers with the model class `kind`.

    `modules` maps types of modules, such as `models.Pooling`, to their configs. The first module is the model of
    transformers in `folder` itself; its config is written to `sentence_bert_config.json`.
    """
    names = [name.rpartition(".")[2] for name in modules]
    places = [f"{number}_{name}" if number else "" for number, name in enumerate(names)]
    files: dict[str, object] = {
        MODULES: [
            {"idx": number, "name": str(number), "path": place, "type": f"sentence_transformers.{module}"}
            for number, (module, place) in enumerate(zip(modules, places, strict=True))
        ],
        LENGTH: {
            "max_seq_length": embedding.max_length,
            "do_lower_case": False,
            "model_args": dict(model_arguments),
            **next(iter(modules.values())),
        },
        PROMPTS: {
            "model_type": kind,
            "prompts": dict(embedding.prompts),
            "default_prompt_name": embedding.default_prompt,
            "similarity_fn_name": embedding.similarity,
        },
    }
    files |= {
        f"{place}/config.json": modules[name] for name, place in zip(modules, places, strict=True) if place
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")


def read_embedding(name_or_path: str) -> Embedding | None:
    """Returns the embedding of a folder of sentence-transformers, a run, or a hub name; None for other folders.

    Raises:
        ValueError: the folder has unknown modules or an unknown pooling, or a file that cannot be read.
    """
    path = model_folder(name_or_path)
    if (modules := _content(path, MODULES)) is None:
        return None
    try:
        return _read(path, modules)
    except _UnknownModule as error:
        raise ValueError(
            f"the folder of sentence-transformers {name_or_path!r} has {error}: expected Transformer, Pooling (one of "
            f"{', '.join(OURS)}; over the prompt too), and then Normalize or nothing"
        ) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the folder of sentence-transformers {name_or_path!r} cannot be read: {error!r}"
        ) from error


class _UnknownModule(Exception):
    pass


def _read(path: str, modules: object) -> Embedding:
    if not isinstance(modules, list) or not all(
        isinstance(m, dict) and {"type", "path"} <= {*m} for m in modules
    ):
        raise _UnknownModule(f"no list of modules with type and path in {MODULES}")
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    unit_length = kinds[2:] == ["Normalize"]
    if kinds[:2] != ["Transformer", "Pooling"] or (kinds[2:] and not unit_length):
        raise _UnknownModule(f"the modules {', '.join(kinds)}")
    if modules[0]["path"]:
        raise _UnknownModule(f"its Transformer in {modules[0]['path']!r} instead of beside {MODULES}")
    if (place := Path(str(modules[1]["path"]))).is_absolute() or ".." in place.parts:
        raise _UnknownModule(f"its Pooling in {str(place)!r}, outside of the folder")
    pooling = _content(path, f"{place}/config.json")
    if pooling is None:
        raise _UnknownModule(f"no {place}/config.json")
    length, config = _content(path, LENGTH) or {}, _content(path, PROMPTS) or {}
    if length.get("do_lower_case"):
        raise _UnknownModule("do_lower_case, which the tokenizer does not do")
    prompts = {name: text for name, text in (config.get("prompts") or {}).items() if text is not None}
    return Embedding(
        _pooling(pooling), unit_length, prompts, config.get("default_prompt_name"),
        length.get("max_seq_length"), config.get("similarity_fn_name") or "cosine",
    )  # fmt: skip


def _pooling(config: Mapping[str, Any]) -> str:
    """Returns the name of the pooling in a config of version 5 or 6."""
    setting = config.get("pooling_mode") or [name for name, field in POOLINGS.items() if config.get(field)]
    modes = [setting] if isinstance(setting, str) else list(setting) or ["mean"]
    if len(modes) > 1 or modes[0] not in OURS:
        raise _UnknownModule(f"the pooling {' and '.join(modes)}")
    if not config.get("include_prompt", True):
        raise _UnknownModule("a pooling without the prompt's tokens")
    return str(modes[0])


def _content(path: str, name: str) -> Any:
    """Returns the content of a JSON file; None if it is missing, or the hub cannot be reached."""
    from transformers.utils import cached_file

    try:
        file = cached_file(path, name, **ABSENT)
        return None if file is None else json.loads(Path(file).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"the file {name} of {path!r} is no JSON: {error}") from error


def settle_embedding(config: DictConfig) -> None:
    """Fills in unset pooling, unit length and prompts from the model's folder, else mean pooling and unit length.

    Logs the settings that differ from the folder. Raises ValueError for a folder with modules that cannot be
    trained here.
    """
    name = config.model.get("name_or_path")
    embedding = read_embedding(name) if name else None
    defaults, differences = embedding or Embedding("mean", normalised=True), []
    for group, field, value in (
        ("objective", "pooling", defaults.pooling),
        ("objective", "normalised", defaults.normalised),
        ("data", "query_prompt", defaults.prompt("query")),
        ("data", "passage_prompt", defaults.prompt("passage")),
    ):
        if field not in config[group]:
            continue
        setting = config[group][field]
        if setting is None:
            config[group][field] = value
        elif setting != value:
            differences.append(f"{group}.{field}={setting!r} instead of {value!r}")
    if embedding is not None and differences:
        log.info("other than in the folder of sentence-transformers %s: %s", name, ", ".join(differences))
