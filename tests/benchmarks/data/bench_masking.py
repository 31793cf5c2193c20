"""Masking and collating against transformers' collator: `python -m tests.benchmarks masking`.

Both turn the same tokenised documents into micro-batches of as many documents, one thread, in turn. Theirs pads to the
longest and draws from torch's generator, so its masks follow from what was drawn before; ours are keyed by sample.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.benchmarks.data.bench_permute import interleaved, table
from tiryns.runner.objectives import MaskedLanguageModelingCollator
from tiryns.runner.order.keyed import sample_keys

VOCABULARY, DOCUMENTS, AT_ONCE, SHARE = 30_522, 4_096, 128, 0.15


def documents() -> tuple[np.ndarray, ...]:
    """Token ids, lengths and ends of paragraphs, and their keys."""
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.lognormal(3.6, 0.8, DOCUMENTS), 3, 512).astype(np.int32)
    ids = draw.integers(5, VOCABULARY, int(lengths.sum()))
    ends = np.cumsum(lengths)
    ids[ends - 1], ids[ends - lengths] = 3, 2
    return ids, lengths, ends, sample_keys(1, np.zeros(DOCUMENTS, np.int64), np.arange(DOCUMENTS), 0)


def main() -> None:
    """Prints the table."""
    ids, lengths, ends, keys = documents()
    collate = MaskedLanguageModelingCollator(
        mlm_probability=SHARE, pad_token_id=0, mask_token_id=4, vocab_size=VOCABULARY,
        special_token_ids=list(range(5)), text_column="text", label_column=None, max_sequence_length=512,
    )  # fmt: skip
    groups = [slice(i, i + AT_ONCE) for i in range(0, DOCUMENTS, AT_ONCE)]
    texts = np.split(ids, ends[:-1])

    def ours(packed: bool) -> list[Any]:
        made = []
        for group in groups:
            flat = ids[ends[group.start] - lengths[group.start] : ends[group.stop - 1]]
            samples = {"input_ids": flat, "lengths": lengths[group], "keys": keys[group], "packed": packed}
            made.append(collate(samples))
        return made

    rows = [{"input_ids": text.tolist()} for text in texts]
    tensors = [{"input_ids": torch.from_numpy(text)} for text in texts]
    theirs = their_collator()
    seconds = interleaved(
        {
            "ours, packed": lambda: ours(True),
            "ours, padded": lambda: ours(False),
            "transformers, from lists": lambda: [theirs(rows[group]) for group in groups],
            "transformers, from tensors": lambda: [theirs(tensors[group]) for group in groups],
        }
    )
    tokens, best = int(lengths.sum()), seconds["ours, packed"]
    print(f"{tokens:,} tokens of {DOCUMENTS:,} documents, {AT_ONCE} at a time\n")
    cells = [
        (name, f"{tokens / s / 1e6:.2f}", "" if s == best else f"{s / best:.1f}x")
        for name, s in seconds.items()
    ]
    table(("", "million tokens per CPU second", "ours, packed, is faster"), cells)


def their_collator() -> Any:
    """Hugging Face's collator over a tokenizer of that many words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = {word: i for i, word in enumerate([*special, *(f"w{i}" for i in range(VOCABULARY - 5))])}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        Tokenizer(WordLevel(words, "[UNK]")).save(str(path))
        names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(path), **dict(zip(names, special, strict=True))
        )
    return DataCollatorForLanguageModeling(tokenizer, mlm_probability=SHARE)
