"""Low-rank adapters (LoRA, arXiv 2106.09685) of a trained model, by `peft`: the model's own weights stay frozen.

A matrix W [O, I] becomes W + s B A with A [r, I] and B [O, r], where B begins at 0, and s = alpha / r (`lora`) or
alpha / sqrt(r) (`rslora`, arXiv 2312.03732); `dora` trains the norm of each row as well (arXiv 2402.09353).
"""

import copy
import fnmatch
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedModel

from tiryns.conf.model import Pretrained
from tiryns.conf.values import suggest
from tiryns.runner import log
from tiryns.runner.config.loading import from_pretrained
from tiryns.runner.models.initial.dtypes import load_model
from tiryns.runner.optim.roles import parts
from tiryns.runner.widening import at_least_fp32

NAME = "default"
"""The adapter's name in the model, the default of `peft`."""

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""Files of an adapter's folder, as `peft` names them."""

INSIDE = "base_model.model."
"""Prefix of the names of weights in files of `peft`."""


class Adapted(NamedTuple):
    """How a model with adapters is exported (`merged`, `separate`), and its fully trained modules outside the encoder."""

    export: str
    modules: list[str]


def adapt(model: PreTrainedModel, settings: Pretrained, base: str, poolers: Sequence[nn.Module]) -> None:
    """Adds adapters to linear layers of the encoder, or of the language model in a vision-language model.

    Other weights of the encoder or language model, and output embeddings, are frozen. Heads, `poolers`, and modules that
    turn images into features are trained as usual. An exported adapter states `base`, the model's name or folder.

    Raises:
        ValueError: `peft` is not installed, a target names no linear layer, or there is no linear layer.
    """
    peft = import_peft()
    core = model.get_decoder() if hasattr(model.config, "vision_config") else model.base_model
    outputs = model.get_output_embeddings()
    base_parameters = [*core.parameters(), *(outputs.parameters() if outputs is not None else ())]
    frozen = {id(p) for p in base_parameters} - {id(p) for pooler in poolers for p in pooler.parameters()}
    trainable = [p for p in model.parameters() if id(p) not in frozen]
    modules = _outermost(model, frozen)
    layers = chosen_layers(model, core, settings.adapter_targets)
    config = peft.LoraConfig(
        r=settings.adapter_rank, lora_alpha=settings.adapter_alpha, lora_dropout=settings.adapter_dropout,
        target_modules=layers, use_rslora=settings.adapter == "rslora", use_dora=settings.adapter == "dora",
        base_model_name_or_path=str(Path(base).resolve()) if Path(base).is_dir() else base,
    )  # fmt: skip
    peft.inject_adapter_in_model(config, model, adapter_name=NAME)
    for parameter in trainable:
        parameter.requires_grad_(True)
    vars(model)["adapted"] = Adapted(settings.adapter_export, modules)
    every = list(model.parameters())
    counts = [sum(p.numel() for p in group) for group in ([p for p in every if p.requires_grad], every)]
    log.info(
        "%s of rank %d on %d linear layers: %s of %s parameters are trained",
        settings.adapter, settings.adapter_rank, len(layers), *[f"{count:,}" for count in counts],
    )  # fmt: skip


def check_separate(base: str, new_vocabulary: bool) -> None:
    """Raises ValueError if an adapter alone could not restore the trained model."""
    advice = "set model.adapter_export=merged"
    if new_vocabulary:
        raise ValueError(
            f"model.adapter_export=separate: the adapter would need the embeddings of the new vocabulary; {advice}"
        )
    if (Path(base) / CONFIG).is_file():
        raise ValueError(
            f"model.adapter_export=separate: {base!r} is an adapter itself, which loading merges; {advice}"
        )


def chosen_layers(model: PreTrainedModel, core: nn.Module, targets: str | Sequence[str] | None) -> list[str]:
    """Returns the names of the linear modules in the core's layers that match `targets`; all of them if None.

    A target is a module's name, the end of a name (as in `peft`), or a pattern with `*` for anything: `Wqkv`, `attn.Wo`,
    `*.0.mlp.*`. Raises ValueError for a target without a match.
    """
    inside = {id(p) for p in core.parameters()}
    places = {id(part.parameter): part.place for part in parts(model).values() if part.role == "matrix"}
    layers = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and id(module.weight) in inside
        and id(module.weight) in places
        and places[id(module.weight)].layer is not None
    ]
    if not layers:
        raise ValueError(f"model.adapter: the layers of {type(model).__name__} have no linear module")
    selection: set[str] = set()
    for target in [targets] if isinstance(targets, str) else targets or ():
        matches = [
            name for name in layers if f".{name}".endswith(f".{target}") or fnmatch.fnmatchcase(name, target)
        ]
        if not matches:
            ends = list(dict.fromkeys(name.rpartition(".")[2] for name in layers))
            raise ValueError(
                f"model.adapter_targets: {target!r} matches no linear layer of the model; known names: {', '.join(ends)} "
                f"(a full name: {layers[0]})" + suggest(target, [*ends, *layers])
            )
        selection.update(matches)
    return [name for name in layers if name in selection or not targets]


def is_adapted(model: nn.Module) -> bool:
    """Whether a model has adapters."""
    return "adapted" in vars(model)


def is_separate(model: nn.Module) -> bool:
    """Whether a model is exported as an adapter alone."""
    return is_adapted(model) and vars(model)["adapted"].export == "separate"


def save_model(model: PreTrainedModel, folder: Path, state: dict[str, Tensor] | None) -> None:
    """Writes a model as transformers does, with its adapters merged; if `is_separate`, writes a folder of the adapter.

    `state` has the weights to write; None for the model's own.
    """
    if not is_adapted(model):
        model.save_pretrained(folder, state_dict=state)
        return
    whole = model.state_dict() if state is None else state
    if is_separate(model):
        _save_adapter(model, vars(model)["adapted"].modules, folder, whole)
    else:
        model.save_pretrained(folder, state_dict=merge_adapters(model, whole))


@torch.no_grad()
def merge_adapters(model: PreTrainedModel, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns weights with adapters merged in, under their names without adapters; outputs change only by rounding."""
    config: Any = model.peft_config[NAME]
    weights = {n.replace(".base_layer.", "."): t for n, t in state.items() if ".lora_" not in n}
    layers: Any = ((name, module) for name, module in model.named_modules() if hasattr(module, "lora_A"))
    for name, layer in layers:
        of_layer = {
            n.removeprefix(f"{name}."): t.to(at_least_fp32(t.dtype))
            for n, t in state.items()
            if n.startswith(f"{name}.")
        }
        weight = of_layer["base_layer.weight"]
        a, b = (of_layer[f"lora_{side}.{NAME}.weight"] for side in "AB")
        weight = weight + layer.scaling[NAME] * (b @ a)
        if config.use_dora:
            lengths = of_layer[f"lora_magnitude_vector.{NAME}.weight"]
            weight = weight * (lengths / torch.linalg.vector_norm(weight, dim=1))[:, None]
        weights[f"{name}.weight"] = weight.to(state[f"{name}.base_layer.weight"].dtype)
    return weights


def _save_adapter(model: PreTrainedModel, modules: list[str], folder: Path, state: dict[str, Tensor]) -> None:
    """Writes the adapter, the `modules` with trained parameters, and the model's config, in the format of `peft`."""
    import peft
    from safetensors.torch import save_file

    names = [name for name in modules if any(p.requires_grad for p in model.get_submodule(name).parameters())]
    config: Any = copy.copy(model.peft_config[NAME])
    config.inference_mode, config.modules_to_save = True, names or None
    config.auto_mapping = {"base_model_class": type(model).__name__, "parent_library": type(model).__module__}
    tensors = peft.get_peft_model_state_dict(model, state, adapter_name=NAME, save_embedding_layers=False)
    tensors |= {n: t for n, t in state.items() if n.startswith(tuple(f"{module}." for module in names))}
    tensors = {INSIDE + name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config.save_pretrained(folder)
    model_config = copy.deepcopy(model.config)
    model_config.architectures = [type(model).__name__]
    model_config.save_pretrained(folder)


def _outermost(model: nn.Module, frozen: set[int]) -> list[str]:
    """Returns the names of the outermost modules that have parameters but no frozen parameter."""
    names: list[str] = []
    for name, module in model.named_modules():
        ids = [id(p) for p in module.parameters()]
        inside = name.startswith(tuple(f"{outer}." for outer in names))
        if name and ids and not inside and frozen.isdisjoint(ids):
            names.append(name)
    return names


@contextmanager
def whole_model(path: str) -> Iterator[str]:
    """Yields `path` unchanged; if it is the folder of an adapter, a temporary folder with the merged model.

    Raises:
        ValueError: `peft` is not installed.
        OSError: the base model of the adapter is missing.
    """
    if not (Path(path) / CONFIG).is_file():
        yield path
        return
    from tiryns.runner.models.architectures.registered import class_named

    peft, random_state = import_peft(), torch.get_rng_state()
    config = from_pretrained(AutoConfig, path)
    base = peft.PeftConfig.from_pretrained(path).base_model_name_or_path
    kind = class_named(config.architectures[0])
    model = load_model(kind, base, config=config, ignore_mismatched_sizes=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a name that will change
        model = peft.PeftModel.from_pretrained(model, path).merge_and_unload()
    torch.set_rng_state(random_state)  # the head of the model alone was drawn
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        yield folder


def import_peft() -> Any:
    """Returns the package `peft`; raises ValueError if it is not installed."""
    try:
        import peft
    except ImportError as error:
        raise ValueError(f"model.adapter needs peft: pip install 'tiryns[peft]' ({error})") from error
    return peft
