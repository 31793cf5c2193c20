"""A pretrained model's guesses for masked tokens of held-out text (`samples.json` in the run folder); samples as text."""

from itertools import groupby, pairwise
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed.causal import first_documents as ways_of_first
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM, rows_at
from tiryns.runner.objectives.rows import IGNORED

NUM_SAMPLES = 5
"""Samples of each validation set."""

LONGEST = 80
"""Tokens shown of a sample."""

NUM_GUESSES = 3
"""Likeliest tokens kept for each target, with their probabilities."""

Sample = list[str | dict[str, Any]]
"""A text in pieces: plain text or targets. A target has `true` (text), `right`, `guesses` (pairs [text, probability])."""


@torch.no_grad()
def guessed_samples(
    model: SparseMaskedLM, micro_batch: MicroBatch, tokenizer: PreTrainedTokenizerBase
) -> list[Sample]:
    """Returns the first samples of a micro-batch that have targets, cut to `LONGEST` tokens, with the model's guesses."""
    ids, positions, targets = model.inputs_and_targets(micro_batch)
    first, spans = first_documents({**micro_batch, "input_ids": ids})
    places = model.places(micro_batch, positions).tolist()
    answers, index_of = (dict(zip(places, x.tolist(), strict=True)) for x in (targets, positions))
    indices = [i for span in spans for i in span if i in answers]
    if not indices:
        return []
    states = rows_at(model.encode(first), torch.tensor([index_of[i] for i in indices], device=ids.device))
    probabilities, likeliest = model.logits(states).float().softmax(-1).topk(NUM_GUESSES)
    guesses = dict(zip(indices, zip(likeliest.tolist(), probabilities.tolist(), strict=True), strict=True))
    whole = {i: answers.get(i, token) for i, token in enumerate(ids.flatten().tolist())}
    special = set(tokenizer.all_special_ids)
    visible = [[i for i in span if i in answers or whole[i] not in special] for span in spans]
    return [_in_pieces(places, whole, guesses, tokenizer) for places in visible if guesses.keys() & {*places}]


def first_documents(micro_batch: MicroBatch) -> tuple[MicroBatch, list[range]]:
    """Returns the first documents of a micro-batch as a smaller micro-batch, and for each its positions to show.

    A position is the index of a token in the whole micro-batch, counted row by row.
    """
    ids: Tensor = micro_batch["input_ids"]
    first: MicroBatch
    if is_packed := "cu_seqlens" in micro_batch:
        ends = micro_batch["cu_seqlens"][: NUM_SAMPLES + 1]
        *starts, stop = bounds = ends.tolist()
        lengths = [last - start for start, last in pairwise(bounds)]
        first = {"input_ids": ids[:, :stop], "position_ids": micro_batch["position_ids"][:, :stop]}
        first |= {"cu_seqlens": ends, "max_length": max(lengths)}
    else:
        mask = micro_batch["attention_mask"][:NUM_SAMPLES]
        first = {"input_ids": ids[:NUM_SAMPLES], "attention_mask": mask}
        lengths, starts = mask.sum(1).tolist(), [row * ids.shape[1] for row in range(len(mask))]
    if "causal" in micro_batch:
        first["causal"] = ways_of_first(micro_batch["causal"], lengths, is_packed)
    spans = [range(i, i + min(length, LONGEST)) for i, length in zip(starts, lengths, strict=True)]
    return first, spans


def _in_pieces(
    places: list[int], ids: dict[int, int], guesses: dict[int, Any], tokenizer: PreTrainedTokenizerBase
) -> Sample:
    """Returns the tokens at the positions `places` as a sample; tokens with guesses are its targets."""
    pieces: Sample = []
    before = ""
    for n, i in enumerate(places, start=1):
        if not guesses.keys() & {*places[n - 1 : n + 1]} and n < len(places):
            continue  # tokens between two targets are one piece; decoding each of them costs most of the time
        text = _text(tokenizer, [ids[place] for place in places[:n]])
        piece, before = text[len(before) :], text
        if i not in guesses:
            pieces.append(piece)
            continue
        tokens, shares = guesses[i]
        words = (_text(tokenizer, [token]).strip() for token in tokens)
        ranking = [[word, round(share, 3)] for word, share in zip(words, shares, strict=True)]
        pieces.append({"true": piece, "right": tokens[0] == ids[i], "guesses": ranking})
    return pieces


def _text(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


LONGEST_RUN = 4
"""Most equal tokens in a row that are shown one by one; more are shown as `token x count`."""


def marked_texts(micro_batch: MicroBatch, tokenizer: PreTrainedTokenizerBase, collator: object) -> list[str]:
    """Returns the first samples of a micro-batch, cut to some length, each in one line.

    `{shown>target}` is a token that the model sees, with its target; `{target}` is a target that it sees unchanged.
    A target of the whole sample is at the end of the line.
    """
    _, spans = first_documents(micro_batch)
    ids, labels = (micro_batch[name].flatten().tolist() for name in ("input_ids", "labels"))
    tokens = [str(token) for token in tokenizer.convert_ids_to_tokens(ids)]
    names = list(getattr(collator, "labels", []))

    def mark(i: int) -> str:
        if labels[i] == IGNORED:
            return tokens[i]
        target = names[labels[i]] if names else str(tokenizer.convert_ids_to_tokens(labels[i]))
        return f"{{{tokens[i]}}}" if tokens[i] == target else f"{{{tokens[i]}>{target}}}"

    texts = [_join([mark(i) for i in span]) for span in spans]
    targets = [_target(micro_batch, n, ids[span.start :], names, tokenizer) for n, span in enumerate(spans)]
    return [text + (target and f"  => {target}") for text, target in zip(texts, targets, strict=True)]


def _join(words: list[str]) -> str:
    """Joins tokens to a text. Joins the pieces of a word unless one is marked; counts equal tokens, as of an image."""
    text = ""
    for word, alike in groupby(words):
        count = len(list(alike))
        for piece in [f"{word} x {count}"] if count > LONGEST_RUN else [word] * count:
            if piece.startswith("##") and text and not text.endswith("}"):
                text += piece[2:]
            else:
                text += " " + piece.lstrip("Ġ▁")
    return text.strip()


def _target(micro_batch: MicroBatch, number: int, ids: list[int], names: list[str], tokenizer: Any) -> str:
    """Returns the target of sample `number`, whose tokens begin `ids`: labels, a number or an answer; empty if none."""
    if "example_labels" in micro_batch:
        label = micro_batch["example_labels"][number]
        if not label.is_floating_point():
            return names[int(label)]
        if label.ndim and names:
            return ", ".join(n for n, value in zip(names, label.tolist(), strict=True) if value) or "none"
        return f"{float(label):g}"
    if "starts" in micro_batch:
        first, last = int(micro_batch["starts"][number]), int(micro_batch["ends"][number])
        return repr(tokenizer.decode(ids[first : last + 1])) if first else "no answer"
    return ""
