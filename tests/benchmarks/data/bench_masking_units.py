"""Words, spans and counts against tokens masked one by one: `python -m tests.benchmarks masking_units`.

The same tokenised documents are collated into packed micro-batches, one thread, in turn.
"""

from functools import partial
from typing import Any

import numpy as np

from tests.benchmarks.data.bench_masking import AT_ONCE, DOCUMENTS, VOCABULARY, documents
from tests.benchmarks.data.bench_permute import interleaved, table
from tiryns.runner.objectives import MaskedLanguageModelingCollator

INSIDE = 0.3
"""Share of the vocabulary, and so of the tokens, that continues a word."""

CHOICES: dict[str, dict[str, Any]] = {
    "tokens": {}, "words": {"masking": "words"}, "spans": {"masking": "spans"},
    "fixed_count": {"fixed_count": True}, "favour=unseen": {"favour": "unseen"},
    "favour=rare": {"favour": "rare", "token_counts": np.arange(VOCABULARY)},
    "words, favour=rare": {"masking": "words", "favour": "rare", "token_counts": np.arange(VOCABULARY)},
}  # fmt: skip


def main() -> None:
    """Prints the table."""
    ids, lengths, ends, keys = documents()
    epochs = np.zeros(DOCUMENTS, np.int64)
    known: dict[str, Any] = {"special_token_ids": list(range(5)), "tokenizer": tokenizer_of_pieces()}
    made = {n: MaskedLanguageModelingCollator(0, 4, VOCABULARY, **known, **c) for n, c in CHOICES.items()}

    def collate(collator: MaskedLanguageModelingCollator) -> None:
        for first in range(0, DOCUMENTS, AT_ONCE):
            part = slice(first, first + AT_ONCE)
            collator(
                {
                    "input_ids": ids[ends[first] - lengths[first] : ends[part.stop - 1]], "lengths": lengths[part],
                    "keys": keys[part], "lasting_keys": keys[part], "epochs": epochs[part], "packed": True,
                }
            )  # fmt: skip

    seconds = interleaved({name: partial(collate, collator) for name, collator in made.items()})
    print(f"{int(lengths.sum()):,} tokens of {DOCUMENTS:,} documents, {AT_ONCE} at a time\n")
    cells = [
        (name, f"{lengths.sum() / s / 1e6:.1f}", f"{s / seconds['tokens']:.2f}")
        for name, s in seconds.items()
    ]
    table(("objective.masking", "million tokens per CPU second", "times the cost of tokens"), cells)


def tokenizer_of_pieces() -> Any:
    """A WordPiece tokenizer of that many tokens."""
    from tokenizers import Tokenizer, decoders
    from tokenizers.models import WordPiece
    from transformers import PreTrainedTokenizerFast

    pieces = {f"{'##' * (i % 10 < 10 * INSIDE)}w{i}": i for i in range(VOCABULARY)}
    backend = Tokenizer(WordPiece(pieces, unk_token="w1"))
    backend.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=backend)
