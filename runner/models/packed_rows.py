"""Models set up for packed rows: tried first, as many architectures would let packed documents see each other."""

import copy
import logging
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from .documents import flat_places, padded_places
from .packed_attention import NAME

log = logging.getLogger("iolaus")

TOLERANCE = 1e-4
"""How far packed hidden states may be from unpacked ones, relative to the largest; rounding is below 1e-5."""


def encoder_inputs(micro_batch: dict[str, Any], position_offset: int) -> dict[str, Any]:
    """What an encoder needs of a packed micro-batch."""
    ends, longest = micro_batch["cu_seqlens"], micro_batch["max_length"]
    return {
        "input_ids": micro_batch["input_ids"],
        "position_ids": micro_batch["position_ids"] + position_offset,
        "cu_seq_lens_q": ends,
        "cu_seq_lens_k": ends,
        "max_length_q": longest,
        "max_length_k": longest,
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
    """`layout` with `auto` replaced: by the one that the run `began` in, else packed where objective and model allow it.

    Sets the model up for it.

    Raises:
        ValueError: `packed` is asked for where it cannot be.
    """
    taken = began if layout == "auto" else None
    layout = taken or layout
    if layout == "padded":
        return layout
    try:
        if not collator.packs:
            raise ValueError(
                f"{type(collator).__name__} does not train on packed rows; set data.layout=padded"
            )
        task_model.pack_rows()
    except ValueError as reason:
        if taken:
            raise ValueError(
                f"the run began with packed rows, which cannot be had here: {reason}"
            ) from reason
        if layout == "packed":
            raise
        log.info("rows are padded: %s", str(reason).partition(";")[0])
        return "padded"
    return "packed"


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
    for offset in dict.fromkeys((0, _padding(model.config) + 1)):
        try:
            packed = model.base_model(**encoder_inputs(rows, offset))[0][0]
        except (IndexError, RuntimeError, TypeError, ValueError):
            differences[offset] = float("inf")  # arguments or positions that the model does not know
        else:
            differences[offset] = float((packed - alone).abs().max() / alone.abs().max())
    offset = min(differences, key=differences.__getitem__)
    return offset, differences[offset]


def trial_documents(config: PretrainedConfig) -> list[Tensor]:
    """Random documents [T], one longer than a sliding window if that is short, and of several lengths."""
    padding = _padding(config)
    window = getattr(config, "sliding_window", None) or 0
    room = getattr(config, "max_position_embeddings", None) or 512
    longest = window + 17 if window <= 512 else 32
    generator = torch.Generator().manual_seed(0)
    documents = []
    for length in (longest, 1, 24, 24, 7):
        size = max(1, min(length, room - padding - 1))
        ids = torch.randint(config.vocab_size - 1, (size,), generator=generator)
        documents.append(ids + (ids >= padding))  # any token but padding
    return documents


def _padding(config: PretrainedConfig) -> int:
    return config.pad_token_id or 0
