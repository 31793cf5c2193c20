"""Tokenizers of single characters, those of an alphabet or of the documents."""

import heapq
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ALPHABETS = {"protein": "LAGVSERTIDPKQNFYMHWCXBUZO.-", "dna": "ACGTN", "rna": "ACGUN"}
"""Letters of the named alphabets; those of proteins in the order of ESM-2's vocabulary."""

ESM2_TOKENS = {
    "cls_token": "<cls>", "pad_token": "<pad>", "sep_token": "<eos>", "unk_token": "<unk>", "mask_token": "<mask>",
}  # fmt: skip
"""The special tokens of ESM-2, ids 0 to 3 and 32 (github.com/facebookresearch/esm, esm/data.py)."""


def train_characters(
    documents: Iterable[str], vocab_size: int, lowercase: bool, alphabet: str, special: dict[str, str]
) -> "Tokenizer":
    """A tokenizer of single characters: a BPE without merges. With an alphabet it reads no document."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers

    lowered = normalizers.Sequence([normalizers.Lowercase()] if lowercase else [])
    if alphabet:
        letters = list(dict.fromkeys(lowered.normalize_str(ALPHABETS.get(alphabet, alphabet))))
    else:
        counts = Counter(chain.from_iterable(map(lowered.normalize_str, documents)))
        size = vocab_size - len(special)
        letters = sorted(heapq.nsmallest(size, counts, key=lambda letter: (-counts[letter], letter)))
    tokens = [*special.values(), *letters]
    if alphabet == "protein":
        *first, mask = special.values()
        tokens = [*first, *letters, "<null_1>", mask]
    ids = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(ids, [], unk_token=special["unk_token"]))
    spaces = [] if any(map(str.isspace, letters)) else [normalizers.Replace(Regex(r"\s"), "")]
    tokenizer.normalizer = normalizers.Sequence([lowered, *spaces])
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(list(special.values()))
    return tokenizer
