"""Rows for models: packed, padded or single; tried first, as many architectures would let packed documents see each
other, and some read padding."""

import copy
import logging
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from iolaus.runner.models.packed.attention import NAME
from iolaus.runner.models.packed.documents import flat_places, padded_places
from iolaus.runner.models.packed.trials import (
    TOLERANCE,
    evaluating,
    in_one_line,
    padding_id,
    relative_difference,
    trial_documents,
)

log = logging.getLogger("iolaus")


def encoder_inputs(micro_batch: dict[str, Any], position_offset: int) -> dict[str, Any]:
    """What an encoder needs of a packed micro-batch."""
    ends, longest = micro_batch["cu_seqlens"], micro_batch["max_length"]
    return {
        "input_ids": micro_batch["input_ids"],
        "position_ids": micro_batch["position_ids"] + position_offset,
        **{f"cu_seq_lens_{side}": ends for side in "qk"},
        **{f"max_length_{side}": longest for side in "qk"},
    }


_TRIED: dict[tuple[type, str], tuple[int, float]] = {}
"""What `_best_offset` has found for architectures in this process."""


def set_up_packed_rows(pretrained: PreTrainedModel) -> int:
    """Gives a model the attention of packed documents; returns where its positions begin (RoBERTa's do not at 0).

    Before that a copy in fp32 is tried on random documents: packed, each must have the hidden states it has alone.

    Raises:
        ValueError: it has not, or the model has an attention of its own making.
    """
    name = f"{type(pretrained).__name__} ({pretrained.config.model_type})"
    advice = "set data.layout=padded"
    if not pretrained._can_set_attn_implementation():
        raise ValueError(f"{name} has an attention of its own that cannot keep documents apart; {advice}")
    architecture = (type(pretrained), pretrained.config.to_json_string())
    if architecture not in _TRIED:  # the jobs of a sweep often share one
        _TRIED[architecture] = _best_offset(pretrained)
    offset, difference = _TRIED[architecture]
    if not difference <= TOLERANCE:
        raise ValueError(
            f"{name} cannot be given packed documents: their hidden states differ by {difference:.2g} (relative to the "
            f"largest) from those of the same documents alone, where {TOLERANCE:g} is allowed; {advice}"
        )
    pretrained.set_attn_implementation(NAME)
    return offset


def packed_row(documents: list[Tensor]) -> dict[str, Any]:
    """Documents [T] in one row, as a collator packs them."""
    lengths = torch.tensor([len(document) for document in documents])
    return {
        "input_ids": torch.cat(documents)[None],
        "position_ids": torch.cat([torch.arange(n) for n in lengths])[None],
        "cu_seqlens": torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int(),
        "max_length": int(lengths.max()),
    }


def unpacked(row: Tensor, micro_batch: dict[str, Any], fill: float) -> Tensor:
    """Documents of a row [1, T, ...] under each other, [D, longest, ...], with `fill` behind shorter ones."""
    places, gaps = padded_places(micro_batch["cu_seqlens"], micro_batch["max_length"])
    rows = row[0][places]
    return rows.masked_fill(gaps.view(*gaps.shape, *[1] * (rows.dim() - 2)), fill)


def packed_again(rows: Tensor, micro_batch: dict[str, Any]) -> Tensor:
    """What `unpacked` has put under each other, [D, longest, ...], in one row [1, T, ...] again."""
    num_tokens = micro_batch["position_ids"].shape[-1]
    places = flat_places(micro_batch["cu_seqlens"], rows.shape[1], num_tokens)
    return rows.flatten(0, 1).index_select(0, places)[None]


def settle_layout(layout: str, collator: Any, task_model: Any, began: str | None = None) -> str:
    """`layout` with `auto` replaced: by the one that the run `began` in, else by the first of packed, padded and `single`
    that objective and model allow.

    All but the last are tried. Whatever a trial raises, the next layout is taken, with one line in the log. Sets the
    model up for it.

    Raises:
        ValueError: `packed` or `padded` is asked for where it would change what the model makes of a document.
    """
    taken = began if layout == "auto" else None
    try:
        return _chosen_layout(taken or layout, collator, task_model)
    except ValueError as reason:
        if not taken:
            raise
        raise ValueError(f"the run began with {taken} rows, which cannot be had here: {reason}") from reason


def _chosen_layout(layout: str, collator: Any, task_model: Any) -> str:
    if layout == "single":
        return layout
    unpacked_for = None if layout == "padded" else _why_not_packed(collator, task_model)
    if layout != "padded" and unpacked_for is None:
        return "packed"
    if layout == "packed":
        raise ValueError(unpacked_for)
    try:
        untried = task_model.try_padding()
    except ValueError as reason:
        if layout == "padded":
            raise
        log.info("each document is a row and a micro-batch of its own: %s", _without_advice(reason))
        return "single"
    reasons = [_without_advice(unpacked_for)] if unpacked_for else []
    if untried:
        reasons.append(f"whether padding changes anything could not be tried: {untried}")
    if reasons:
        log.info("rows are padded: %s", "; ".join(dict.fromkeys(reasons)))
    return "padded"


def _why_not_packed(collator: Any, task_model: Any) -> str | None:
    """The reason against packed rows; None where the model is set up for them."""
    advice = "set data.layout=padded"
    if not collator.packs:
        return f"{type(collator).__name__} does not train on packed rows; {advice}"
    try:
        task_model.pack_rows()
    except ValueError as reason:
        return str(reason)
    except Exception as error:  # models raise what they like
        return f"{type(task_model.pretrained).__name__} cannot be given packed rows: {in_one_line(error)}; {advice}"
    return None


def may_be_padded(task_model: Any) -> bool:
    """Whether rows of this model may be padded: what it makes of a document does not change with it."""
    try:
        task_model.try_padding()
    except ValueError:
        return False
    return True


def _without_advice(reason: object) -> str:
    """A reason without the advice behind it."""
    return str(reason).rpartition("; set data.layout")[0] or str(reason)


@torch.no_grad()
@torch.autocast("cpu", enabled=False)  # whatever the caller computes in
def try_padded_rows(task_model: Any) -> str:
    """Computes random documents alone, and padded to the longest of them; some models cannot compute the shortest.

    Returns why that could not be tried, or nothing.

    Raises:
        ValueError: the model makes something else of a document with padding behind it. Convolutions, Fourier transforms
            and landmarks of attention read padding, whatever the mask says.
    """
    name, config = type(task_model.pretrained).__name__, task_model.pretrained.config
    alone: list[tuple[Tensor, Tensor]] = []
    untried, device = "", task_model.pretrained.device
    try:
        with evaluating(task_model):
            for document in trial_documents(config):
                try:
                    alone.append((document, task_model.tried(padded_rows([document], config, device))[0]))
                except Exception as error:  # models raise what they like, as for want of marks in documents
                    untried = in_one_line(error)
            if not alone:
                return untried
            together = task_model.tried(padded_rows([document for document, _ in alone], config, device))
    except Exception as error:
        reason = f"{name} cannot be given padded rows: {in_one_line(error)}"
        raise ValueError(f"{reason}; set data.layout=single") from error
    largest = max(max(float(one.abs().max()) for _, one in alone), torch.finfo(torch.float32).tiny)
    differences = [(row[: len(one)] - one).abs().max() for row, (_, one) in zip(together, alone, strict=True)]
    difference = float(torch.stack(differences).max()) / largest
    if not difference <= TOLERANCE:
        raise ValueError(
            f"{name} makes something else of documents in padded rows than of each alone (by {difference:.2g}, relative "
            f"to the largest, where {TOLERANCE:g} is allowed); set data.layout=single"
        )
    return ""


def padded_rows(
    documents: list[Tensor], config: PretrainedConfig, device: torch.device | None = None
) -> dict[str, Any]:
    """Documents [T] as rows of the longest, as a collator pads them."""
    longest = max(len(document) for document in documents)
    ids = torch.full((len(documents), longest), padding_id(config))
    mask = torch.zeros_like(ids)
    for i, document in enumerate(documents):
        ids[i, : len(document)], mask[i, : len(document)] = document, 1
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}


@torch.no_grad()
@torch.autocast("cpu", enabled=False)  # whatever the caller computes in
def _best_offset(pretrained: PreTrainedModel) -> tuple[int, float]:
    """Where positions begin, 0 or behind that of padding, and how far hidden states are off then."""
    model = copy.deepcopy(pretrained).cpu().float().eval()
    documents = trial_documents(model.config)
    alone = torch.cat([model.base_model(input_ids=document[None])[0][0] for document in documents])
    model.set_attn_implementation(NAME)
    rows = packed_row(documents)
    differences = {}
    for offset in dict.fromkeys((0, padding_id(model.config) + 1)):
        try:
            packed = model.base_model(**encoder_inputs(rows, offset))[0][0]
        except (IndexError, RuntimeError, TypeError, ValueError):
            differences[offset] = float("inf")  # arguments or positions that the model does not know
        else:
            differences[offset] = relative_difference(packed, alone)
    offset = min(differences, key=differences.__getitem__)
    return offset, differences[offset]
