"""Small tokenizers of the forms that published models have, which mark the space before a word in different ways."""

from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.data.labelled.tasks import WORDS

SPECIAL = {
    "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>",
    "cls_token": "<s>", "sep_token": "</s>",
}  # fmt: skip
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT_2 = Regex(r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
LLAMA_3 = Regex(r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+")
TO_MARK = normalizers.Replace(" ", "▁")


def split(pattern: Regex) -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), BYTES])


def gemma() -> Any:
    return pre_tokenizers.Split(" ", "merged_with_previous")


FORMS: dict[str, tuple[str, Any, Any]] = {
    "GPT-2": ("bytes", pre_tokenizers.ByteLevel(add_prefix_space=False), None),
    "split, then bytes": ("bytes", split(GPT_2), None),
    "Llama 3": ("bytes", split(LLAMA_3), None),
    "Qwen": ("bytes", split(LLAMA_3), normalizers.NFC()),
    "lowercased bytes": ("bytes", split(GPT_2), normalizers.Lowercase()),
    "stripped bytes": ("bytes", split(GPT_2), normalizers.Sequence([normalizers.Strip(), normalizers.NFC()])),
    "digits, then bytes": (
        "bytes", pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)]), None,
    ),
    "Gemma": ("characters", gemma(), TO_MARK),
    "stripped Gemma": ("characters", gemma(), normalizers.Sequence([normalizers.Strip(), TO_MARK])),
    "Metaspace never": ("characters", pre_tokenizers.Metaspace(prepend_scheme="never"), None),
    "Metaspace": ("characters", pre_tokenizers.Metaspace(), None),
    "Metaspace first": ("characters", pre_tokenizers.Metaspace(prepend_scheme="first"), None),
    "Llama 2": ("characters", None, normalizers.Sequence([normalizers.Prepend("▁"), TO_MARK])),
    "BERT": ("words", pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer()),
}  # fmt: skip
"""What the vocabulary is of, the splitter, and the normalizer."""

UNMARKED = ["BERT"]
"""Forms without a mark for a space."""

AS_TEXT = ["Metaspace", "Metaspace first", "Llama 2", *UNMARKED]
"""Forms that read single words as running text by themselves."""


def word_tokenizer(form: str) -> PreTrainedTokenizerFast:
    """A tokenizer of one of the forms, trained on the words of the tests."""
    kind, splitter, normalizer = FORMS[form]
    model: Any = models.WordPiece(unk_token="<unk>") if kind == "words" else models.BPE(unk_token="<unk>")
    made = Tokenizer(model)
    made.normalizer = normalizer
    made.pre_tokenizer = splitter
    if splitter is None or type(splitter) is pre_tokenizers.Split:
        made.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")  # so that no token has two words
    text = f"{WORDS} Ada Lovelace , 12 . a b c d 0 1 A B C D"
    options: dict[str, Any] = {"vocab_size": 600, "special_tokens": list(dict.fromkeys(SPECIAL.values()))}
    if kind == "bytes":
        options["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    trainer: Any = trainers.WordPieceTrainer if kind == "words" else trainers.BpeTrainer
    made.train_from_iterator([text] * 50, trainer(**options, show_progress=False))
    made.pre_tokenizer = splitter
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL)
