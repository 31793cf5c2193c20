"""The samples of a micro-batch as text, with their targets marked."""

from itertools import groupby
from typing import Any

from transformers import PreTrainedTokenizerBase

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.modules.samples import first_documents

IGNORED = -100

MOST_ALIKE = 4
"""Tokens in a row that are the same; of more their number is shown."""


def marked_texts(micro_batch: MicroBatch, tokenizer: PreTrainedTokenizerBase, collator: Any) -> list[str]:
    """The first samples of a micro-batch, cut to some length, each in one line.

    `{shown>target}` is a token that the model is shown, and what it has to say there; `{target}` one that it is shown
    as it is. What a whole sample is to be recognised as stands at its end.
    """
    _, spans = first_documents(micro_batch)
    ids, labels = (micro_batch[name].flatten().tolist() for name in ("input_ids", "labels"))
    names = list(getattr(collator, "labels", []))
    lines = []
    for number, span in enumerate(spans):
        words = []
        for i in span:
            token = str(tokenizer.convert_ids_to_tokens(ids[i]))
            words.append(token if labels[i] == IGNORED else _marked(token, labels[i], names, tokenizer))
        lines.append(_joined(words) + _whole(micro_batch, number, span, ids, names, tokenizer))
    return lines


def _marked(token: str, label: int, names: list[str], tokenizer: PreTrainedTokenizerBase) -> str:
    target = names[label] if names else str(tokenizer.convert_ids_to_tokens(label))
    return f"{{{token}}}" if token == target else f"{{{token}>{target}}}"


def _joined(words: list[str]) -> str:
    """Pieces of a word put together, unless one of them is marked; what stands for an image is counted."""
    text = ""
    for word, alike in groupby(words):
        count = len(list(alike))
        for piece in [f"{word} x {count}"] if count > MOST_ALIKE else [word] * count:
            if piece.startswith("##") and text and not text.endswith("}"):
                text += piece[2:]
            else:
                text += " " + piece.lstrip("Ġ▁")
    return text.strip()


def _whole(
    micro_batch: MicroBatch,
    number: int,
    span: range,
    ids: list[int],
    names: list[str],
    tokenizer: PreTrainedTokenizerBase,
) -> str:
    """What is learnt of a sample as a whole: its label or labels, a number, or the span that answers it."""
    if "example_labels" in micro_batch:
        label = micro_batch["example_labels"][number]
        if not label.is_floating_point():
            return f"  => {names[int(label)]}"
        if label.ndim and names:
            return f"  => {', '.join(n for n, value in zip(names, label.tolist(), strict=True) if value) or 'none'}"
        return f"  => {float(label):g}"
    if "starts" in micro_batch:
        first, last = int(micro_batch["starts"][number]), int(micro_batch["ends"][number])
        answer = ids[span.start + first : span.start + last + 1] if first else []
        return f"  => {tokenizer.decode(answer)!r}" if answer else "  => no answer"
    return ""
