"""Tokenizers that read single words as words of running text, with the space before each.

A tokenizer that takes the space from the text reads `was` in a list of words, which is another token than the `Ġwas` or
`▁was` of pretraining (https://github.com/huggingface/transformers/issues/35537).
"""

import logging
from collections.abc import Sequence
from typing import Any

log = logging.getLogger("tiryns")

_PROBES = (("a", "b"), ("A", "B"), ("0", "1"), ("ж", "я"), ("中", "文"), ("あ", "い"), ("ب", "م"), ("क", "ख"))
"""Pairs of words, in scripts of which a vocabulary may know one alone."""


def read_words_as_text(tokenizer: Any, new_normalizer: bool = True) -> bool:
    """Makes a tokenizer read single words as running text, if it does not; returns whether it got a new normalizer.

    A byte-level splitter has a setting for it. Without `new_normalizer` nothing else is tried. The normalizer puts a
    space before the first word of running text as well, as that setting does, and is saved with the tokenizer.
    """
    from tokenizers.normalizers import Prepend
    from tokenizers.normalizers import Sequence as Normalizers
    from transformers import PreTrainedTokenizerFast

    backend = tokenizer.backend_tokenizer
    unknown = getattr(backend.model, "unk_token", None)
    known = [words for words in _PROBES if unknown not in backend.encode(" ".join(words)).tokens]
    if not (differences := _differences(backend, known)):
        return False
    splitter, given = backend.pre_tokenizer, backend.normalizer
    if hasattr(splitter, "add_prefix_space"):
        splitter.add_prefix_space = tokenizer.add_prefix_space = True
        backend.pre_tokenizer = splitter
        return False
    if not new_normalizer:
        return False
    others = [] if given is None else [given]
    for parts in ([Prepend(" "), *others], [*others, Prepend(" ")], [*others, Prepend("▁")]):
        backend.normalizer = Normalizers(parts)
        if not _differences(backend, known):
            # transformers makes the normalizer of a class for one architecture anew when it is loaded, and loses this one
            tokenizer.__class__ = PreTrainedTokenizerFast
            return True
    backend.normalizer = given
    words, alone, running = differences[0]
    log.warning(
        "the tokenizer reads words one by one as %r, and in running text as %r (%s): a model that was trained on running "
        "text knows them otherwise", alone, running, " ".join(words),
    )  # fmt: skip
    return False


def _differences(backend: Any, probes: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, str], str, str]]:
    """Probes that are spelt in other tokens as single words than as a text, with both, whatever tokens are merged."""
    found = []
    for words in probes:
        alone = backend.encode(words, is_pretokenized=True, add_special_tokens=False).tokens
        running = backend.encode(" ".join(words), add_special_tokens=False).tokens
        if "".join(alone) != "".join(running):
            found.append((words, "".join(alone), "".join(running)))
    return found
