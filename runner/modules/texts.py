"""The samples of a micro-batch as text, with their targets marked."""

from itertools import groupby
from typing import Any

from transformers import PreTrainedTokenizerBase

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.modules.samples import first_documents
from tiryns.runner.objectives.rows import IGNORED

LONGEST_RUN = 4
"""Equal tokens in a row that are shown; of more their number is shown."""


def marked_texts(micro_batch: MicroBatch, tokenizer: PreTrainedTokenizerBase, collator: object) -> list[str]:
    """The first samples of a micro-batch, cut to some length, each in one line.

    `{shown>target}` is a token that the model sees and its target, `{target}` one that it sees unchanged. The target of
    a whole sample is at its end.
    """
    _, spans = first_documents(micro_batch)
    ids, labels = (micro_batch[name].flatten().tolist() for name in ("input_ids", "labels"))
    tokens = [str(token) for token in tokenizer.convert_ids_to_tokens(ids)]
    names = list(getattr(collator, "labels", []))

    def marked(i: int) -> str:
        if labels[i] == IGNORED:
            return tokens[i]
        target = names[labels[i]] if names else str(tokenizer.convert_ids_to_tokens(labels[i]))
        return f"{{{tokens[i]}}}" if tokens[i] == target else f"{{{tokens[i]}>{target}}}"

    texts = [_joined([marked(i) for i in span]) for span in spans]
    targets = [_target(micro_batch, n, ids[span.start :], names, tokenizer) for n, span in enumerate(spans)]
    return [text + (target and f"  => {target}") for text, target in zip(texts, targets, strict=True)]


def _joined(words: list[str]) -> str:
    """Joins the pieces of a word unless one of them is marked, and counts the tokens of an image."""
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
    """The target of a sample that begins the `ids`: its labels, a number, or its answer; empty if it has none."""
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
