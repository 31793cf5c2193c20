"""A pretrained model's guesses for masked tokens of held-out text: `samples.json` in the run folder."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed.causal import first_documents as ways_of_first
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM, rows_at

NUM_SAMPLES = 5
"""Samples of each validation set."""

LONGEST = 80
"""Tokens shown of a sample."""

NUM_GUESSES = 3
"""Likeliest tokens kept for each target, with their probabilities."""

Sample = list[str | dict[str, Any]]
"""A text in pieces: as it stands, or a target: `true`, and `guesses`, pairs of text and probability."""


@torch.no_grad()
def guessed_samples(
    model: SparseMaskedLM, micro_batch: MicroBatch, tokenizer: PreTrainedTokenizerBase
) -> list[Sample]:
    """The first samples of a micro-batch that have targets, cut to `LONGEST` tokens, with the model's guesses."""
    ids, positions, targets = model.masked(micro_batch)
    first, spans = first_documents({**micro_batch, "input_ids": ids})
    places = model.places(micro_batch, positions).tolist()
    answers, guessed_at = (dict(zip(places, x.tolist(), strict=True)) for x in (targets, positions))
    wanted = [i for span in spans for i in span if i in answers]
    if not wanted:
        return []
    chosen = rows_at(model.encode(first), torch.tensor([guessed_at[i] for i in wanted], device=ids.device))
    probabilities, likeliest = model.logits(chosen).float().softmax(-1).topk(NUM_GUESSES)
    guesses = dict(zip(wanted, zip(likeliest.tolist(), probabilities.tolist(), strict=True), strict=True))
    whole = {i: answers.get(i, token) for i, token in enumerate(ids.flatten().tolist())}
    special = set(tokenizer.all_special_ids)
    shown = [[i for i in span if i in answers or whole[i] not in special] for span in spans]
    return [_in_pieces(places, whole, guesses, tokenizer) for places in shown if guesses.keys() & {*places}]


def first_documents(micro_batch: MicroBatch) -> tuple[MicroBatch, list[range]]:
    """The first documents of a micro-batch as one of their own, and the positions of each that are shown.

    Positions count tokens row by row, and are those of the whole micro-batch.
    """
    ids: Tensor = micro_batch["input_ids"]
    if "cu_seqlens" not in micro_batch:
        mask = micro_batch["attention_mask"][:NUM_SAMPLES]
        width = ids.shape[1]
        lengths = mask.sum(1).clamp(max=LONGEST).tolist()
        spans = [range(row * width, row * width + length) for row, length in enumerate(lengths)]
        padded: MicroBatch = {"input_ids": ids[:NUM_SAMPLES], "attention_mask": mask}
        return _same_ways(padded, micro_batch, mask.sum(1).tolist()), spans
    ends = micro_batch["cu_seqlens"][: NUM_SAMPLES + 1]
    bounds, stop = ends.tolist(), int(ends[-1])
    packed: MicroBatch = {
        "input_ids": ids[:, :stop],
        "position_ids": micro_batch["position_ids"][:, :stop],
        "cu_seqlens": ends,
        "max_length": max(last - first for first, last in pairwise(bounds)),
    }
    spans = [range(first, min(last, first + LONGEST)) for first, last in pairwise(bounds)]
    return _same_ways(packed, micro_batch, [last - first for first, last in pairwise(bounds)]), spans


def _same_ways(first: MicroBatch, whole: MicroBatch, lengths: list[int]) -> MicroBatch:
    """The first documents, of which the same are read causally as in the whole micro-batch."""
    if "causal" in whole:
        first["causal"] = ways_of_first(whole["causal"], lengths, "cu_seqlens" in whole)
    return first


def _in_pieces(
    places: list[int], ids: dict[int, int], guesses: dict[int, Any], tokenizer: PreTrainedTokenizerBase
) -> Sample:
    """The tokens at some places as text; those with guesses are targets."""
    pieces: Sample = []
    before = ""
    for n, i in enumerate(places, start=1):
        text = _text(tokenizer, [ids[place] for place in places[:n]])
        piece, before = text[len(before) :], text
        if i in guesses:
            tokens, shares = guesses[i]
            words = (_text(tokenizer, [token]).strip() for token in tokens)
            found = [[word, round(share, 3)] for word, share in zip(words, shares, strict=True)]
            pieces.append({"true": piece, "right": tokens[0] == ids[i], "guesses": found})
        elif pieces and isinstance(pieces[-1], str):
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return pieces


def _text(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))
