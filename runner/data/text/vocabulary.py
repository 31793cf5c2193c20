"""What a tokenizer knows of the texts it is given."""

import logging
from typing import Any

import numpy as np

log = logging.getLogger("tiryns")

READ = 200
"""Samples whose tokens are counted, spread evenly over all."""

LEAST = 500
"""Tokens below which a share tells nothing."""

MANY = 0.05
"""Share of unknown tokens from which on a tokenizer is another text's."""


def describe_vocabulary(tokenizer: Any, samples: Any = ()) -> str:
    """The size of the vocabulary, what it lacks of some samples, and whether texts get no special tokens at their ends.

    Warns of a tokenizer that knows little of them.
    """
    unknown = unknown_share(tokenizer, samples)
    token, share = tokenizer.unk_token, f"{unknown:.0%}"
    if unknown >= MANY:
        log.warning(
            "%s of the tokens are %s: the tokenizer was made for other text, and the model cannot tell what stands "
            "there; choose another data.tokenizer, or data.tokenizer_kind",
            *(share, token),
        )
    lacking = f"; {share} of the text is {token}" if unknown >= MANY else ""
    bare = "" if tokenizer.num_special_tokens_to_add() else "; the tokenizer adds no special tokens to a text"
    return f"{len(tokenizer):,} tokens{lacking}{bare}"


def unknown_share(tokenizer: Any, samples: Any) -> float:
    """The share of the token for what a tokenizer does not know among the ordinary ones of samples.

    It is 0 without such a token, also where it is that of a text's end, as GPT-2 has it, and of very few tokens.
    """
    unknown, special = tokenizer.unk_token_id, {*tokenizer.all_special_ids}
    others = {tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id}
    if unknown is None or unknown in others or not len(samples):
        return 0.0
    some = np.unique(np.linspace(0, len(samples) - 1, READ).astype(np.int64))
    tokens = samples.gather(some)[0]
    ordinary = tokens[~np.isin(tokens, [*(special - {unknown})])]
    return float(np.mean(ordinary == unknown)) if len(ordinary) >= LEAST else 0.0
