"""Chooses the layout of rows for a model: packed, padded or single.

Each layout is first tried on random documents: in many architectures packed documents see each other; some read padding.
"""

import copy
import math
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PretrainedConfig, PreTrainedModel

from tiryns.runner import log
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed import trials
from tiryns.runner.models.packed.attention import NAME
from tiryns.runner.models.packed.documents import flat_places, padded_places
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.patches.transformers import takes_attention
from tiryns.runner.widening import at_least_fp32

_TRIED: dict[tuple[type, str], tuple[int, float]] = {}
"""Results of `_best_offset` by architecture in this process, without results that are NaN."""


def encoder_inputs(micro_batch: MicroBatch, position_offset: int) -> dict[str, object]:
    """Returns the arguments of an encoder for a packed micro-batch."""
    ends, longest = micro_batch["cu_seqlens"], micro_batch["max_length"]
    return {
        "input_ids": micro_batch["input_ids"],
        "position_ids": micro_batch["position_ids"] + position_offset,
        **{f"cu_seq_lens_{side}": ends for side in "qk"},
        **{f"max_length_{side}": longest for side in "qk"},
    }


def set_up_packed_rows(pretrained: PreTrainedModel) -> int:
    """Sets the attention of packed documents; returns the model's first position (RoBERTa's is not 0).

    Raises:
        ValueError: in at least fp32, hidden states of packed random documents differ from those of each document alone;
            or the model has its own attention.
    """
    name = f"{type(pretrained).__name__} ({pretrained.config.model_type})"
    advice = "set data.layout=padded"
    if not takes_attention(pretrained):
        raise ValueError(f"{name} has an attention of its own that cannot keep documents apart; {advice}")
    architecture = (type(pretrained), pretrained.config.to_json_string())
    offset, difference = _TRIED.get(architecture) or _best_offset(pretrained)
    if not math.isnan(difference):  # the jobs of a sweep often share an architecture
        _TRIED[architecture] = (offset, difference)
    if not difference <= trials.TOLERANCE:
        raise ValueError(
            f"{name} cannot be given packed documents: their hidden states differ by {difference:.2g} (relative to the "
            f"largest) from those of the same documents alone, where {trials.TOLERANCE:g} is allowed; {advice}"
        )
    pretrained.set_attn_implementation(NAME)
    return offset


def packed_row(documents: list[Tensor]) -> MicroBatch:
    """Returns documents [T] in one row, as a collator packs them."""
    lengths = [len(document) for document in documents]
    return {
        "input_ids": torch.cat(documents)[None],
        "position_ids": torch.cat([torch.arange(length) for length in lengths])[None],
        "cu_seqlens": torch.tensor([0, *accumulate(lengths)], dtype=torch.int32),
        "max_length": max(lengths),
    }


def unpacked(row: Tensor, micro_batch: MicroBatch, fill: float) -> Tensor:
    """Returns the documents of a packed row [1, T, ...] as padded rows [D, longest, ...], with `fill` as padding."""
    places, gaps = padded_places(micro_batch["cu_seqlens"], micro_batch["max_length"])
    rows = row[0][places]
    return rows.masked_fill(gaps.view(*gaps.shape, *[1] * (rows.dim() - 2)), fill)


def repack(rows: Tensor, micro_batch: MicroBatch) -> Tensor:
    """Returns the inverse of `unpacked`: rows [D, longest, ...] as a packed row [1, T, ...]."""
    num_tokens = micro_batch["position_ids"].shape[-1]
    places = flat_places(micro_batch["cu_seqlens"], rows.shape[1], num_tokens)
    return rows.flatten(0, 1).index_select(0, places)[None]


def choose_layout(layout: str, collator: object, task_model: TaskModel, began: str | None = None) -> str:
    """Sets the model up for `layout`, and returns it. `auto` stands for the layout with which the run `began`; without
    `began` it stands for the first of `packed`, `padded` and `single` whose trial succeeds.

    Raises:
        ValueError: `layout` or `began` is `packed` or `padded`, which would change the hidden states of a document.
    """
    if layout == "auto" and began:
        try:
            return choose_layout(began, collator, task_model)
        except ValueError as reason:
            raise ValueError(
                f"the run began with {began} rows, which cannot be had here: {reason}"
            ) from reason
    if layout == "single":
        return layout
    reasons = []
    if layout != "padded":
        refusal = _why_not_packed(collator, task_model)
        if refusal is None:
            return "packed"
        if layout == "packed":
            raise ValueError(refusal)
        reasons = [_without_advice(refusal)]
    try:
        problem = task_model.try_padding()
    except ValueError as error:
        if layout == "padded":
            raise
        log.info("each document is a row and a micro-batch of its own: %s", _without_advice(error))
        return "single"
    if problem:
        reasons.append(f"the effect of padding could not be tried: {problem}")
    if reasons:
        log.info("rows are padded: %s", "; ".join(dict.fromkeys(reasons)))
    return "padded"


def _why_not_packed(collator: Any, task_model: TaskModel) -> str | None:
    """Returns the reason against packed rows; None if the model is now set up for them."""
    advice = "set data.layout=padded"
    if not collator.packs:
        return f"{type(collator).__name__} does not train on packed rows; {advice}"
    try:
        task_model.pack_rows()
    except ValueError as reason:
        return str(reason)
    except Exception as error:  # models raise what they like
        name, problem = type(task_model.pretrained).__name__, trials.in_one_line(error)
        return f"{name} cannot be given packed rows: {problem}; {advice}"
    return None


def may_be_padded(task_model: TaskModel) -> bool:
    """Whether padding leaves the hidden states of documents unchanged."""
    try:
        task_model.try_padding()
    except ValueError:
        return False
    return True


def _without_advice(reason: object) -> str:
    """Returns a reason without the advice at its end."""
    return str(reason).rpartition("; set data.layout")[0] or str(reason)


@torch.no_grad()
@torch.autocast("cpu", enabled=False)  # whatever the caller computes in
def try_padded_rows(task_model: TaskModel) -> str:
    """Checks that padding changes no hidden state of random documents, except for documents that cannot run alone.

    Returns the reason if the trial is impossible, else an empty string.

    Raises:
        ValueError: the hidden states of a document change with padding, as with convolutions and Fourier transforms.
    """
    name, config = type(task_model.pretrained).__name__, task_model.pretrained.config
    documents, alone = [], []
    problem, device = "", task_model.pretrained.device
    try:
        with trials.evaluating(task_model):
            for document in trials.trial_documents(config):
                try:
                    alone.append(task_model.trial(padded_rows([document], config, device))[0])
                    documents.append(document)
                except Exception as error:  # models raise anything, for example where a document lacks a mark
                    problem = trials.in_one_line(error)
            if not alone:
                return problem
            together = task_model.trial(padded_rows(documents, config, device))
    except Exception as error:
        reason = f"{name} cannot be given padded rows: {trials.in_one_line(error)}"
        raise ValueError(f"{reason}; set data.layout=single") from error
    states = torch.cat([row[: len(one)] for row, one in zip(together, alone, strict=True)])
    difference = trials.relative_difference(states, torch.cat(alone))
    if not difference <= trials.TOLERANCE:
        raise ValueError(
            f"padding changes the outputs of {name} for documents by {difference:.2g} (relative to the "
            f"largest), where {trials.TOLERANCE:g} is allowed; set data.layout=single"
        )
    return ""


def padded_rows(
    documents: list[Tensor], config: PretrainedConfig, device: torch.device | None = None
) -> MicroBatch:
    """Returns documents [T] in rows padded to the longest document, as a collator pads them."""
    ids = pad_sequence(documents, batch_first=True, padding_value=trials.padding_id(config))
    mask = pad_sequence([torch.ones_like(document) for document in documents], batch_first=True)
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}


@torch.no_grad()
@torch.autocast("cpu", enabled=False)  # whatever the caller computes in
def _best_offset(pretrained: PreTrainedModel) -> tuple[int, float]:
    """Returns the model's first position (0 or padding's id + 1), and how much packing changes hidden states with it."""
    model: Any = copy.deepcopy(pretrained)
    model.to("cpu", at_least_fp32(pretrained.dtype)).eval()
    documents = trials.trial_documents(model.config)
    alone = torch.cat([model.base_model(input_ids=document[None])[0][0] for document in documents])
    model.set_attn_implementation(NAME)
    rows = packed_row(documents)
    differences = {}
    for offset in dict.fromkeys((0, trials.padding_id(model.config) + 1)):
        try:
            hidden = model.base_model(**encoder_inputs(rows, offset))[0][0]
        except (IndexError, RuntimeError, TypeError, ValueError):
            differences[offset] = float("inf")  # arguments or positions that the model does not know
        else:
            differences[offset] = trials.relative_difference(hidden, alone)
    offset = min(differences, key=differences.__getitem__)
    return offset, differences[offset]
