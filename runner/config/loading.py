"""Loads configs, tokenizers, processors and models of transformers, and tells its errors in one line.

Code of a model's own runs only where `trust_remote_code` allows it; transformers would ask on the terminal. A model whose
code transformers has as well is loaded with that.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from json import JSONDecodeError
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from tiryns.runner.run.files import read_json

_allowed = False

own_architectures: dict[str, Callable[[], None]] = {}
"""What makes an architecture of this project known to transformers, by its `model_type`."""


def allow_custom_code(allowed: bool) -> None:
    """Sets whether models may run code of their own from now on."""
    global _allowed
    _allowed = allowed


def custom_code_allowed() -> bool:
    """Whether models may run code of their own."""
    return _allowed


def from_pretrained(loader: Any, name_or_path: str | Path, **options: Any) -> Any:
    """Loads a name or folder with `loader`, such as `AutoConfig`; raises CustomCodeRefused, or as transformers does."""
    _make_known(name_or_path)
    try:
        loaded = loader.from_pretrained(name_or_path, trust_remote_code=_allowed, **options)
    except ValueError as error:
        if not _allowed and "trust_remote_code" in str(error):
            raise CustomCodeRefused(
                f"{str(name_or_path)!r} brings code of its own (auto_map), which is not run: read it, and if you trust "
                "it, allow it with trust_remote_code=true on the command line"
            ) from error
        raise
    if not isinstance(getattr(loaded, "architectures", None), list | None):
        raise ValueError(f"'architectures' in the config of {str(name_or_path)!r} is no list of names")
    return loaded


def _make_known(name_or_path: str | Path) -> None:
    """Makes the architecture of a model known to transformers where it is one of this project's."""
    from transformers import PretrainedConfig

    # what is missing or broken is told by the loading
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        known, _ = PretrainedConfig.get_config_dict(name_or_path)
        if make_known := own_architectures.get(str(known.get("model_type"))):
            make_known()


class CustomCodeRefused(ValueError):
    """A model needs code that its author has put beside it, which is not allowed to run."""


def cannot_load(name_or_path: str, error: Exception) -> ValueError:
    """The error for a model that transformers, safetensors or pickle cannot load: one line, and what would be right."""
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
    """The error for a config that transformers builds no model of: one line, with the field where it is known."""
    field = field_of(config, error) if isinstance(error, KeyError) else None
    reason = f"model.config.{field} is not known to it" if field else _reason(error)
    return ValueError(f"transformers builds no {architecture} of this config: {reason}")


def _reason(error: Exception) -> str:
    """The first line of an error, with the next one where it ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def field_of(config: Mapping[str, Any], error: KeyError) -> str | None:
    """The field of a config whose value was looked up in vain, such as `hidden_act='nope'`; None where it is none.

    Example:
        >>> field_of({"hidden_size": 8, "hidden_act": "nope"}, KeyError("nope"))
        "hidden_act='nope'"
    """
    looked_up = error.args[:1]
    return next((f"{name}={value!r}" for name, value in config.items() if looked_up == (value,)), None)
