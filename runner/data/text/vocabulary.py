"""Measures the share of unknown tokens in texts, and whether a tokenizer reads single words as in running text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiryns.runner import log
from tiryns.runner.data.micro_batch import Tokenizer

MANY = 0.05
"""Share of unknown tokens from which a warning says that the tokenizer was made for other text."""


def describe_vocabulary(tokenizer: Tokenizer, samples: object = ()) -> str:
    """Describes the size of the vocabulary, the share of unknown tokens if it is large, and a lack of special tokens.

    Warns if the share of unknown tokens in `samples` is `MANY` or more.
    """
    lacking, share = "", unknown_share(tokenizer, samples)
    if share >= MANY:
        lacking = f"{share:.0%} of the text is {tokenizer.unk_token}"
        log.warning(
            "%s: the tokenizer was made for other text, and the model cannot see these words; choose another "
            "data.tokenizer, or data.tokenizer_kind", lacking,
        )  # fmt: skip
    bare = "" if tokenizer.num_special_tokens_to_add() else "the tokenizer adds no special tokens to a text"
    return "; ".join(filter(None, (f"{len(tokenizer):,} tokens", lacking, bare)))


def unknown_share(tokenizer: Tokenizer, samples: Any) -> float:
    """Returns the share of the unknown token among the ordinary tokens of samples.

    It is measured on 200 evenly spread samples. It is 0 if there is no unknown token, if that token is also the end of
    text (as in GPT-2), or if the samples have fewer than 500 tokens.
    """
    unknown, special = tokenizer.unk_token_id, {*tokenizer.all_special_ids}
    others = {tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id}
    if unknown is None or unknown in others or not len(samples):
        return 0.0
    tokens, _ = samples.gather(np.unique(np.linspace(0, len(samples) - 1, 200).astype(np.int64)))
    ordinary = tokens[~np.isin(tokens, [*(special - {unknown})])]
    return float(np.mean(ordinary == unknown)) if len(ordinary) >= 500 else 0.0


_PROBES = (("a", "b"), ("A", "B"), ("0", "1"), ("ж", "я"), ("中", "文"), ("あ", "い"), ("ب", "م"), ("क", "ख"))
"""Pairs of words in several scripts, as a vocabulary may know only one script."""


def read_words_as_text(tokenizer: Tokenizer, new_normalizer: bool = True) -> bool:
    """Makes a tokenizer read single words as it reads running text; returns whether it got a new normalizer.

    A byte-level splitter has a setting for this; other tokenizers get a normalizer, if `new_normalizer` is set. Both put
    a space before the first word of running text as well. The normalizer is saved with the tokenizer.
    """
    from tokenizers.normalizers import Prepend
    from tokenizers.normalizers import Sequence as Normalizers
    from transformers import PreTrainedTokenizerFast

    backend = tokenizer.backend_tokenizer
    unknown = getattr(backend.model, "unk_token", None)
    probes = [words for words in _PROBES if unknown not in backend.encode(" ".join(words)).tokens]
    if not (differences := _differences(backend, probes)):
        return False
    splitter, normalizer = backend.pre_tokenizer, backend.normalizer
    if hasattr(splitter, "add_prefix_space"):
        splitter.add_prefix_space = tokenizer.add_prefix_space = True
        backend.pre_tokenizer = splitter
        return False
    if not new_normalizer:
        return False
    others = [] if normalizer is None else [normalizer]
    for parts in ([Prepend(" "), *others], [*others, Prepend(" ")], [*others, Prepend("▁")]):
        backend.normalizer = Normalizers(parts)
        if not _differences(backend, probes):
            # transformers makes the normalizer of a class for one architecture anew when it is loaded, and loses this one
            tokenizer.__class__ = PreTrainedTokenizerFast
            return True
    backend.normalizer = normalizer
    words, alone, running = differences[0]
    log.warning(
        "the tokenizer reads words one by one as %r, and in running text as %r (%s): a model that was trained on running "
        "text knows only the second spelling", alone, running, " ".join(words),
    )  # fmt: skip
    return False


def _differences(backend: Any, probes: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, str], str, str]]:
    """Returns the probes whose joined tokens differ between single words and running text, with both joined strings."""
    differences = []
    for words in probes:
        alone = backend.encode(words, is_pretokenized=True, add_special_tokens=False).tokens
        running = backend.encode(" ".join(words), add_special_tokens=False).tokens
        if "".join(alone) != "".join(running):
            differences.append((words, "".join(alone), "".join(running)))
    return differences
