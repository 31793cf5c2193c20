"""Loads configs, tokenizers, processors and models of transformers, and reports its errors in one line.

A model's own code runs only if `trust_remote_code` allows it; transformers alone would ask on the terminal. If it is not
allowed, transformers' code for the model runs, if there is any. A model is refused if its files choose a kernel from the
hub, which is code, or have a tokenizer that makes a short text very long.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from json import JSONDecodeError
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from tiryns.runner.run.files import read_json

PLAIN = ("eager", "sdpa", "flex_attention", "grouped_mm", "batched_mm")
"""Implementations of attention and experts that transformers has itself; it looks for others on the hub."""

MOST_GROWTH = 32
"""Largest factor by which a tokenizer's rules may lengthen a text; published tokenizers stay below 10."""

GROWING = {"ByteLevel": 4, "Metaspace": 2}
"""Tokenizer steps that lengthen a text whatever their settings are, and the largest factor of each."""

STEPS = ("normalizer", "pre_tokenizer"), ("decoder",)
"""Parts of a tokenizer that process a text in encoding, and parts that process it in decoding."""

_CHARACTER = r"(?:\\[pP]\{\^?\w+\}|\\[^bBAzZGKXpP]|\[(?:\\.|[^\]\\])+\]|[^\\\[\](){}*+?|^$])"
_OFTEN = r"(?:(?:[*+?]|\{\d*(?:,\d*)?\})[?+]?)?"
_TAKES_A_CHARACTER = re.compile(
    rf"(?:{_CHARACTER}{_OFTEN})*?{_CHARACTER}(?:(?:\+|\{{[1-9]\d*(?:,\d*)?\}})[?+]?)?(?:{_CHARACTER}{_OFTEN})*"
)
"""Matches expressions that have no groups or alternatives and never match empty text: at most a match per character."""

MOST_READ = 200
"""Longest expression that is analysed, in characters."""

MOST_PADDED = 1 << 20
"""Greatest length to which a tokenizer may pad by itself, in tokens."""

_may_run_code = False

own_architectures: dict[str, Callable[[], None]] = {}
"""Functions that register an architecture of this project with transformers, by its `model_type`."""


def allow_custom_code(may_run: bool) -> None:
    """Sets whether models may run code of their own from now on."""
    global _may_run_code
    _may_run_code = may_run


def custom_code_allowed() -> bool:
    """Whether models may run code of their own."""
    return _may_run_code


def from_pretrained(loader: Any, name_or_path: str | Path, **options: Any) -> Any:
    """Loads a name or folder with `loader`, such as `AutoConfig`; raises CustomCodeRefused, and transformers' errors."""
    for file in _files_of(str(name_or_path), options):
        check_files(file, file.stat().st_mtime_ns)
    from transformers import PretrainedConfig

    # what is missing or broken is told by the loading below
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        config, _ = PretrainedConfig.get_config_dict(name_or_path, revision=options.get("revision") or "main")
        if make_known := own_architectures.get(str(config.get("model_type"))):
            make_known()
    try:
        instance = loader.from_pretrained(name_or_path, trust_remote_code=_may_run_code, **options)
    except ValueError as error:
        if not _may_run_code and "trust_remote_code" in str(error):
            raise CustomCodeRefused(
                f"{str(name_or_path)!r} brings code of its own (auto_map), which is not run: read it, and if you trust "
                "it, allow it with trust_remote_code=true on the command line"
            ) from error
        raise
    if not isinstance(getattr(instance, "architectures", None), list | None):
        raise ValueError(f"'architectures' in the config of {str(name_or_path)!r} is no list of names")
    return instance


class CustomCodeRefused(ValueError):
    """A model needs code from its own folder or from the hub, or its tokenizer lengthens texts without bound."""


def _files_of(name_or_path: str, options: dict[str, Any]) -> Iterator[Path]:
    """Yields the config and tokenizer files of a model, from a local folder or the hub.

    Sets the revision in `options` to the first file's commit, so that the loader later uses the files checked here.
    """
    if (folder := Path(name_or_path)).is_dir():
        for pattern in ("config*.json", "tokenizer*.json", "*/tokenizer*.json"):
            yield from folder.glob(pattern)
        return
    from huggingface_hub import try_to_load_from_cache
    from transformers.utils import cached_file
    from transformers.utils.hub import extract_commit_hash

    names, commit = ["config.json", "tokenizer.json", "tokenizer_config.json"], None
    for name in names:
        # the loader says what is wrong with the name
        with suppress(OSError, ValueError, TypeError):
            entry = try_to_load_from_cache(name_or_path, name, revision=commit) if commit else None
            if entry is not None and not isinstance(entry, str):  # the repository has no such file
                continue
            file = Path(
                entry or str(cached_file(name_or_path, name, revision=options.get("revision") or "main"))
            )
            if commit is None and (commit := extract_commit_hash(file.as_posix(), None)):
                options["revision"] = commit
            yield file
            for key in ("configuration_files", "fast_tokenizer_files"):  # for versions of the library
                names += [other for other in read_json(file, {}).get(key, []) if other not in names]


@cache
def check_files(file: Path, mtime: int) -> None:
    """Raises CustomCodeRefused if a model's file would load code or fill memory; `mtime` is part of the cache key."""
    values = read_json(file, {})
    if file.name.startswith("config"):
        for key, value in (choice for node in mappings_in(values) for choice in node.items()):
            if problem := kernel_problem(key, value):
                raise CustomCodeRefused(
                    f"{key}={value!r} in {str(file)!r} is refused: {problem}; take the entry away"
                )
    elif (growth := growth_of(values)) > MOST_GROWTH:
        raise CustomCodeRefused(
            f"the tokenizer {str(file)!r} is refused: its rules make a text {growth:,.0f} times longer, or more; "
            f"at most {MOST_GROWTH} times is allowed"
        )


def mappings_in(values: object) -> Iterator[Mapping[str, Any]]:
    """Yields each mapping in a value of JSON, at any depth, in their order."""
    stack = [values]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            yield node
        if isinstance(node, list | Mapping):
            stack += reversed([*(node.values() if isinstance(node, Mapping) else node)])


def kernel_problem(key: str, value: object) -> str | None:
    """Returns why a setting of a model is refused, if it would run code from the hub; else None.

    Example:
        >>> kernel_problem("attn_implementation", "owner/kernel")
        'it would run code from the hub. There are sdpa and eager'
    """
    is_choice = key.removesuffix("_internal").endswith(("attn_implementation", "experts_implementation"))
    if not is_choice and key not in ("use_kernels", "kernel_config"):
        return None
    if isinstance(value, Mapping):  # a choice for each part of the model
        return next(filter(None, (kernel_problem(key, part) for part in value.values())), None)
    kernel = str(value).strip().removeprefix("paged|")
    is_known = kernel in PLAIN or (kernel == "flash_attention_2" and find_spec("flash_attn") is not None)
    if not value or (is_choice and is_known):
        return None
    return "it would run code from the hub. There are sdpa and eager"


def growth_of(tokenizer: Mapping[str, Any]) -> float:
    """Returns the largest factor by which the rules of a `tokenizer.json` may lengthen a text.

    Example:
        >>> growth_of({"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "    "}})
        4.0
    """
    padding, processor_values = (
        [value for node in mappings_in(tokenizer.get(name)) for value in node.values()]
        for name in ("padding", "post_processor")
    )
    pad_lengths = [value for value in padding if isinstance(value, int)]
    parts = [len(part) for part in processor_values if isinstance(part, list)]
    encoding, decoding = (_growth_of_steps([tokenizer.get(name) for name in names]) for names in STEPS)
    return max(encoding, decoding, *parts, max(pad_lengths, default=0) / MOST_PADDED * MOST_GROWTH)


def _growth_of_steps(parts: object) -> float:
    """Returns the largest factor by which steps lengthen text; replacements multiply the factor of what they replace."""
    floor = most = 1.0
    of_written: dict[str, float] = {}
    for step in (node for node in mappings_in(parts) if "type" in node):
        if step.get("type") != "Replace" or not isinstance(content := step.get("content"), str):
            most = floor = most * _growth_of_step(step)
            continue
        pattern: Any = step.get("pattern")
        literal, by = pattern.get("String") if isinstance(pattern, Mapping) else None, 1.0 + len(content)
        if isinstance(literal, str) and literal:
            before, by = (
                max(floor, *(of_written.get(one, 1.0) for one in {*literal})),
                len(content) / len(literal),
            )
        else:
            before, read = most, str(pattern.get("Regex") if isinstance(pattern, Mapping) else "")
            by = len(content) if len(read) <= MOST_READ and _TAKES_A_CHARACTER.fullmatch(read) else by
        grown = before * max(1.0, by)
        of_written |= {one: max(grown, of_written.get(one, 1.0)) for one in {*content}}
        most = max(most, grown)
    return most


def _growth_of_step(step: Mapping[str, Any]) -> float:
    """Returns the largest factor by which a step other than `Replace` may lengthen a text."""
    if step.get("type") == "Prepend":
        return max(1.0, len(str(step.get("prepend"))) / 4)
    if step.get("type") == "Precompiled":
        try:
            content = base64.b64decode(str(step.get("precompiled_charsmap") or ""))
        except ValueError:
            return 1.0
        # a map of sentencepiece: behind its trie are the texts that it puts in the place of characters
        texts = content[4 + int.from_bytes(content[:4], "little") :].split(b"\0")
        return max(1.0, max(map(len, texts)) / 64)
    return GROWING.get(str(step.get("type")), 1)


def cannot_load(name_or_path: str, error: Exception) -> ValueError:
    """Returns the error for a model that transformers, safetensors or pickle cannot load: one line with the remedy."""
    reason = _reason(error)
    if isinstance(error, EOFError):
        reason = "a file of its weights is empty"
    elif "Weights only load failed" in reason or isinstance(error, UnpicklingError):
        reason = (
            "its weights are damaged, or a pickle of more than tensors, which could run code and is not opened; save "
            "them as model.safetensors"
        )
    elif "deserializing header" in reason:
        reason = f"its weights are damaged, or were not downloaded whole, as by Git without LFS ({reason})"
    elif isinstance(error, JSONDecodeError):
        reason = f"a file of JSON in it is damaged ({reason})"
    elif isinstance(error, KeyError) and (
        field := field_of(read_json(Path(name_or_path) / "config.json", {}), error)
    ):
        reason = f"its config.json has {field}, which transformers does not know"
    elif isinstance(error, KeyError):
        reason = f"a file of JSON in it lacks {reason}, or has it where transformers does not know it"
    elif isinstance(error, TypeError | AttributeError | IndexError):
        reason = f"a value in its files of JSON is of a wrong type ({reason})"
    elif "Unrecognized model" in reason and (Path(name_or_path) / "adapter_config.json").is_file():
        reason = "it holds an adapter alone, without the config.json of its model; merge it by peft, or export it again"
    return ValueError(f"cannot load the model {name_or_path!r}: {reason}")


def cannot_build(architecture: str, config: Mapping[str, Any], error: Exception) -> ValueError:
    """Returns the error for a config that transformers cannot build: one line, with the unknown field if it is found."""
    field = field_of(config, error) if isinstance(error, KeyError) else None
    reason = f"model.config.{field} is not known to it" if field else _reason(error)
    return ValueError(f"transformers builds no {architecture} of this config: {reason}")


def _reason(error: Exception) -> str:
    """Returns the first line of an error, with the next line if the first ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def field_of(config: Mapping[str, Any], error: KeyError) -> str | None:
    """Returns the field of a config whose value caused the KeyError, such as `hidden_act='nope'`; else None.

    Example:
        >>> field_of({"hidden_size": 8, "hidden_act": "nope"}, KeyError("nope"))
        "hidden_act='nope'"
    """
    missing_key = error.args[:1]
    return next((f"{name}={value!r}" for name, value in config.items() if missing_key == (value,)), None)
