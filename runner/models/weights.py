"""Strict loading of weights: a missing, unexpected or mismatched weight of the encoder is an error."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import MODEL_FOR_MASKED_LM_MAPPING, PreTrainedModel
from transformers.utils import logging as transformers_logging

from tiryns.runner import log
from tiryns.runner.config.loading import CustomCodeRefused, cannot_load
from tiryns.runner.models.adapters import whole_model
from tiryns.runner.models.architectures import registered  # noqa: F401  which loading then finds
from tiryns.runner.models.architectures.registered import ARCHITECTURES
from tiryns.runner.models.initial.dtypes import load_model
from tiryns.runner.models.packed.trials import evaluating, padding_id, relative_difference, trial_documents
from tiryns.runner.optim.roles import parts

# it warns of kernels for 4 bits, which nothing here has
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)

PREFIXES = {r"^(?:(?:module|_orig_mod)\.)+": "", r"\.(?:(?:module|_orig_mod)\.)+": "."}
"""Patterns of the prefixes that DDP and torch.compile add to names of weights, with their replacements."""


def load_trained(auto: type, path: str, both_ways: bool = True) -> PreTrainedModel:
    """Returns the model in `path`. Raises as `load_weights` does, and ValueError if weights of the head are missing."""
    model, new = load_weights(auto, path, both_ways=both_ways)
    if new:
        raise ValueError(
            f"the weights in {path!r} are not those of {type(model).__name__}: {len(new)} are missing ({few(new, 3)})"
        )
    return model


def load_weights(
    auto: type, path: str, new_head: bool = False, both_ways: bool = True, **options: object
) -> tuple[PreTrainedModel, list[str]]:
    """Loads a model by a class, such as AutoModelForMaskedLM; returns it and the names of new weights in its head.

    The file must hold every weight of the body in its shape, and no body weight that the model lacks. Other heads are
    left out. Weights of the model's head may be missing, and with `new_head` may have other shapes. Prefixes of DDP and
    torch.compile are removed from names.

    Raises:
        ValueError: weights are missing, left over, of another shape or not finite; the files cannot be read; or
            `both_ways` is set and the encoder reads causally.
        CustomCodeRefused: the model brings its own code, which is not allowed.
    """
    state = torch.get_rng_state()
    model, info = _read(auto, path, options)
    if any(re.search(pattern, name) for name in info["unexpected_keys"] for pattern in PREFIXES):
        torch.set_rng_state(state)  # a new head is then that of the same weights without prefixes
        plain_model, plain_info = _read(auto, path, {**options, "key_mapping": PREFIXES})
        if len(plain_info["missing_keys"]) < len(info["missing_keys"]):
            model, info = plain_model, plain_info
            log.info("the weights in %s have names with module. or _orig_mod., which are removed", path)
    head = _names_of_head(model)
    missing = [name for name in info["missing_keys"] if name not in head]
    extra = [name for name in info["unexpected_keys"] if _is_of_body(name, model)]
    shapes = [
        f"{name} is {_sides(file_shape)} there, {_sides(shape)} in the model"
        for name, file_shape, shape in info["mismatched_keys"]
        if not (new_head and name in head)
    ]
    wrong = {"are missing": missing, "are not known to the model": extra, "have another shape": shapes}
    problems = [f"{len(names)} {fault} ({few(sorted(names), 3)})" for fault, names in wrong.items() if names]
    if problems:
        raise ValueError(
            f"the weights in {path!r} are not those of {type(model).__name__}: " + "; ".join(problems)
        )
    new = {*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])}
    if bad := [n for n, p in model.named_parameters() if n not in new and not p.isfinite().all()]:
        raise ValueError(
            f"{len(bad)} weights in {path!r} hold nan or infinite numbers ({few(bad, 3)}): did the run diverge?"
        )
    if both_ways:
        check_reads_both_ways(model, path)
    return model, sorted(new & head)


def _read(auto: type, path: str, options: dict[str, object]) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Returns the model, and the loading info of transformers; silences transformers' own report."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    strictly = {"ignore_mismatched_sizes": True, "output_loading_info": True}
    try:
        with no_bars(), whole_model(path) as whole:
            return load_model(auto, whole, **options, **strictly)
    except CustomCodeRefused:
        raise
    except Exception as error:  # of safetensors, pickle, config or model
        raise cannot_load(path, error) from error
    finally:
        transformers_logging.set_verbosity(verbosity)


def _names_of_head(model: PreTrainedModel) -> set[str]:
    """Returns the names of all weights outside the body, and of weights in the body that only the head uses."""
    inside = head_inside_body(model).values()
    of_head = {id(tensor) for child in inside for tensor in child.state_dict(keep_vars=True).values()}
    body = {id(tensor) for tensor in model.base_model.state_dict(keep_vars=True).values()} - of_head
    return {name for name, tensor in model.state_dict(keep_vars=True).items() if id(tensor) not in body}


def head_inside_body(model: PreTrainedModel) -> dict[str, nn.Module]:
    """Returns the modules of the body after its layers, such as poolers."""
    roles = {id(part.parameter): part for part in parts(model).values()}
    modules = {}
    for name, child in model.base_model.named_children():
        inside = [roles[id(p)] for p in child.parameters() if id(p) in roles]
        behind = all(part.place.layer is None and not part.place.below for part in inside)
        if behind and any(part.role == "head" for part in inside):
            modules[name] = child
    return modules


def _is_of_body(name: str, model: PreTrainedModel) -> bool:
    """Whether the weight of a name, with or without the body's prefix, is in the body; False for buffers and poolers."""
    body, prefix = model.base_model, model.base_model_prefix + "."
    inner = name.removeprefix(prefix)
    if inner in dict(body.named_buffers()) or inner.endswith(("position_ids", "inv_freq")):
        return False
    beside = {child for child, _ in model.named_children()} if body is not model else set()
    first = inner.partition(".")[0]
    children = dict(body.named_children()).keys() - head_inside_body(model).keys()
    return first in children and (name != inner or first not in beside)


def _sides(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def few(names: Sequence[object], count: int) -> str:
    """Returns the first `count` names, separated by commas."""
    return ", ".join(map(str, names[:count])) + (", ..." if len(names) > count else "")


@contextmanager
def no_bars() -> Iterator[None]:
    """Silences the progress bars of transformers."""
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            transformers_logging.enable_progress_bar()


UNCHANGED = 1e-6
"""Relative difference up to which hidden states count as unchanged; with a causal mask the difference is 0."""


def check_reads_both_ways(model: PreTrainedModel, path: str) -> None:
    """Raises ValueError for an encoder of masked language modelling whose tokens see only earlier tokens.

    Another version of a library may have made the encoder causal. Decoders are not checked, as they have heads for tasks.
    """
    config = model.config
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING and config.model_type not in ARCHITECTURES:
        return
    if reads_one_way(model):
        raise ValueError(
            f"the model {path!r} ({config.model_type}) reads one way only: its tokens do not see later tokens, which "
            "this objective needs; set model.config.is_decoder=false if its config says true, else install the version "
            "of transformers that it was trained with, or choose objective=clm"
        )


@torch.no_grad()
@torch.autocast("cpu", enabled=False)  # whatever the caller computes in
def reads_one_way(model: PreTrainedModel) -> bool:
    """Whether the hidden states of a random document depend on earlier tokens but not on later tokens.

    Returns False if the model cannot be tried, or if its tokens do not see each other at all.
    """
    ids = max(trial_documents(model.config), key=len)
    half = len(ids) // 2
    others = (ids + 1 + (ids + 1 == padding_id(model.config)).long()) % model.config.vocab_size
    try:
        with evaluating(model), torch.random.fork_rng([]):
            variants = (torch.cat([others[:half], ids[half:]]), torch.cat([ids[:half], others[half:]]))
            rows = torch.stack([ids, *variants]).to(model.device)
            whole, before, behind = model.base_model(input_ids=rows, attention_mask=torch.ones_like(rows))[0]
        sees_before = relative_difference(before[half:], whole[half:]) > UNCHANGED
        return sees_before and relative_difference(behind[:half], whole[:half]) <= UNCHANGED
    except Exception:  # models raise what they like, such as for inputs that are no text
        return False
