"""Tokenizers trained on the training documents, or loaded by name."""

import hashlib
import heapq
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiryns.conf.values import Settings
from tiryns.runner import log
from tiryns.runner.config.loading import CustomCodeRefused, cannot_load, from_pretrained
from tiryns.runner.run.errors import reason_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

TOKENIZER_KINDS = ("wordpiece", "bpe", "characters")
"""Kinds of tokenizer that can be trained; the last may name its alphabet, as in `characters:dna`."""

SPECIAL_TOKENS = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
"""The special tokens of a trained tokenizer, ids 0 to 4."""

ROBERTA_TOKENS = {
    "pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>",
}  # fmt: skip
"""The special tokens in RoBERTa's spelling."""

ESM2_TOKENS = {
    "cls_token": "<cls>", "pad_token": "<pad>", "sep_token": "<eos>", "unk_token": "<unk>", "mask_token": "<mask>",
}  # fmt: skip
"""The special tokens of ESM-2, ids 0 to 3 and 32 (github.com/facebookresearch/esm, esm/data.py)."""

ALPHABETS = {"protein": "LAGVSERTIDPKQNFYMHWCXBUZO.-", "dna": "ACGTN", "rna": "ACGUN"}
"""Letters of the named alphabets; those of proteins in the order of ESM-2's vocabulary."""

MASKING = ("pad", "mask")
"""Special tokens that training on masked texts needs; other training needs only `pad`."""

VERSION = 2
"""Increased when training on the same documents would give another tokenizer."""

_NUM_BYTES = 256
_LARGEST_ALPHABET = 1000


def train_tokenizer(
    documents: Iterable[str], kind: str, vocab_size: int, lowercase: bool
) -> "PreTrainedTokenizerFast":
    """Trains a BERT-like tokenizer; the same documents and settings always give the same vocabulary.

    `wordpiece`: BERT's cleaning and word splitting, pieces of a word marked `##` (arXiv 1810.04805, section 3). `bpe`:
    byte-level pair merges, so no text is unknown. `characters`: a token for each of the most frequent characters.
    `characters:ALPHABET`: a token for each letter of one of `ALPHABETS`, or of ALPHABET itself; white space is removed
    if the alphabet has none. All kinds add begin and end tokens to a text. `wordpiece` reads `documents` repeatedly.
    Raises ValueError for an unknown kind, a vocabulary too small for its alphabet, or `wordpiece` on text without spaces.
    """
    check_training(kind, vocab_size, lowercase)
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    kind, _, alphabet = kind.partition(":")
    special = ESM2_TOKENS if alphabet == "protein" else SPECIAL_TOKENS
    if kind == "characters":
        backend = _train_characters(documents, vocab_size, lowercase, alphabet, special)
    else:
        backend = (_train_wordpiece if kind == "wordpiece" else _train_bpe)(documents, vocab_size, lowercase)
    cls, sep = special["cls_token"], special["sep_token"]
    backend.post_processor = TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(token, backend.token_to_id(token)) for token in (cls, sep)],
    )
    names = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_input_names=names, **special)


def check_training(kind: str, vocab_size: int, lowercase: bool) -> Settings:
    """Returns training settings; raises ValueError for an unknown kind, or a vocabulary too small for its alphabet."""
    name, colon, alphabet = kind.partition(":")
    if name not in TOKENIZER_KINDS or (colon and name != "characters"):
        raise ValueError(f"data.tokenizer_kind={kind!r}; there are: {', '.join(TOKENIZER_KINDS)}")
    letters = ALPHABETS.get(alphabet, alphabet)
    if colon and (not letters or len({*letters}) < len(letters)):
        raise ValueError(
            f"data.tokenizer_kind={kind!r}: expected {', '.join(ALPHABETS)}, or distinct letters after the colon"
        )
    sizes = {"bpe": _NUM_BYTES, "wordpiece": 32, "characters": max(1, len(letters) + (alphabet == "protein"))}
    smallest = len(SPECIAL_TOKENS) + sizes[name]
    if vocab_size < smallest:
        minimum = f"at least {smallest} ({len(SPECIAL_TOKENS)} special tokens and an alphabet)"
        raise ValueError(f"data.vocab_size={vocab_size} is too small: {kind} needs {minimum}")
    return {"kind": kind, "vocab_size": vocab_size, "lowercase": lowercase}


def load_tokenizer(name_or_folder: str, needed: Sequence[str] = MASKING) -> "PreTrainedTokenizerBase":
    """Returns the Hugging Face tokenizer of a name or folder.

    A missing padding token is replaced by the token that ends texts, as in decoders. Raises FileNotFoundError for a
    missing tokenizer, ValueError if it is not a fast one or lacks one of the tokens `needed`.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = from_pretrained(AutoTokenizer, name_or_folder)
    except CustomCodeRefused:
        raise
    except Exception as error:  # the library raises a dozen kinds, some without a message
        check_config_of(name_or_folder)
        where = f"the folder {name_or_folder} holds" if Path(name_or_folder).is_dir() else "there is"
        raise FileNotFoundError(
            f"data.tokenizer={name_or_folder!r}: {where} no tokenizer that can be loaded ({reason_of(error)}). Give a "
            "folder with tokenizer.json, a name on the hub (with a connection, or downloaded before), or null to train "
            "one"
        ) from error
    if knows_no_words(tokenizer):
        raise FileNotFoundError(
            f"data.tokenizer={name_or_folder!r} holds no tokenizer: all it knows are special tokens. Give the folder or "
            "name of the model's own tokenizer"
        )
    if not getattr(tokenizer, "is_fast", False):
        needs = "has no fast version (tokenizer.json), which is needed here"
        raise ValueError(f"data.tokenizer={name_or_folder!r} {needs}")
    longest: object = tokenizer.model_max_length
    if isinstance(longest, bool) or not isinstance(longest, int | float) or not longest >= 1:
        raise ValueError(
            f"data.tokenizer={name_or_folder!r}: model_max_length is {longest!r:.40} in tokenizer_config.json; expected "
            "a number of tokens, such as 512, or no such entry"
        )
    if not tokenizer.special_tokens_map:
        _take_known_tokens(tokenizer)
    if "pad" in needed and tokenizer.pad_token is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
        message = "the tokenizer has no padding: rows are filled with %s, which the model ignores there"
        log.info(message, tokenizer.eos_token)
    if lacks := [role for role in needed if getattr(tokenizer, f"{role}_token_id") is None]:
        special = tokenizer.special_tokens_map.items()
        roles = ", ".join(f"{role}: {token}" for role, token in special) or "none"
        example = ", ".join(f"'{role}_token': '[{role.upper()}]'" for role in lacks)
        raise ValueError(
            f"data.tokenizer={name_or_folder!r} has no {' and no '.join(lacks)} token; its special tokens are: {roles}. "
            f"Choose an encoder's tokenizer, or save this one with them: tokenizer.add_special_tokens({{{example}}})"
        )
    return tokenizer


def borrows_padding(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Returns whether padding is the token that ends texts; `load_tokenizer` sets this if a tokenizer has no padding."""
    return tokenizer.pad_token_id is not None and tokenizer.pad_token_id == tokenizer.eos_token_id


def check_config_of(name_or_folder: str) -> None:
    """Raises ValueError for a folder whose config.json, which names the kind of tokenizer, cannot be read."""
    from transformers import AutoConfig

    if (Path(name_or_folder) / "config.json").is_file():
        try:
            from_pretrained(AutoConfig, name_or_folder)
        except Exception as error:
            raise cannot_load(name_or_folder, error) from error


def knows_no_words(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether a tokenizer knows only special tokens, like the one that transformers makes for a model without one."""
    return set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens)


def _take_known_tokens(tokenizer: "PreTrainedTokenizerBase") -> None:
    """Sets the special tokens of a tokenizer.json without config, if its vocabulary has BERT's or RoBERTa's tokens."""
    vocabulary = tokenizer.get_vocab()
    for tokens in (SPECIAL_TOKENS, ROBERTA_TOKENS):
        if all(tokens[role] in vocabulary for role in ("pad_token", "mask_token")):
            special: dict[str, Any] = {role: token for role, token in tokens.items() if token in vocabulary}
            tokenizer.add_special_tokens(special)
            log.info("the tokenizer names no special tokens: using %s", ", ".join(special.values()))
            return


def tokenizer_fingerprint(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Hash of everything that decides how a text becomes ids."""
    special = (tokenizer.special_tokens_map.items(), tokenizer.all_special_ids)
    parts = [tokenizer.backend_tokenizer.to_str(), *(str(sorted(values)) for values in special)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()


def _train_wordpiece(documents: Iterable[str], vocab_size: int, lowercase: bool) -> "Tokenizer":
    """Trains a WordPiece tokenizer with an alphabet in a fixed order.

    The library's trainer numbers `##x` in the order of a hash table, which also decides between equally frequent pairs.
    So the trainer gets the alphabet as special tokens, and its vocabulary is put into a new model.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    unknown = SPECIAL_TOKENS["unk_token"]

    def build(vocab: dict[str, int]) -> "Tokenizer":
        tokenizer = Tokenizer(models.WordPiece(vocab, unk_token=unknown))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        return tokenizer

    tokenizer = build({unknown: 0})
    counts = Counter(chain.from_iterable(map(tokenizer.normalizer.normalize_str, documents)))
    letters = (letter for letter in counts if not letter.isspace())
    size = min((vocab_size - len(SPECIAL_TOKENS)) // 4, _LARGEST_ALPHABET)
    alphabet = sorted(heapq.nsmallest(size, letters, key=lambda letter: (-counts[letter], letter)))
    continuing = [f"##{letter}" for letter in alphabet if inside_words(letter)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=[*SPECIAL_TOKENS.values(), *continuing],
        initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(documents, trainer)
    tokenizer = build(tokenizer.get_vocab())
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS.values()))
    first = tokenizer.encode_batch(list(islice(documents, 100)))
    if sum(encoding.tokens == [unknown] for encoding in first) > len(first) / 2:
        problem = "wordpiece knows no word of over 100 letters: set data.tokenizer_kind=characters or bpe"
        raise ValueError(problem)
    return tokenizer


def _train_bpe(documents: Iterable[str], vocab_size: int, lowercase: bool) -> "Tokenizer":
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    steps = [normalizers.NFC(), *([normalizers.Lowercase()] if lowercase else [])]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer


def _train_characters(
    documents: Iterable[str], vocab_size: int, lowercase: bool, alphabet: str, special: dict[str, str]
) -> "Tokenizer":
    """A tokenizer of single characters: a BPE without merges. With an alphabet it reads no document."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers

    normalizer = normalizers.Sequence([normalizers.Lowercase()] if lowercase else [])
    if alphabet:
        letters = list(dict.fromkeys(normalizer.normalize_str(ALPHABETS.get(alphabet, alphabet))))
    else:
        counts = Counter(chain.from_iterable(map(normalizer.normalize_str, documents)))
        size = vocab_size - len(special)
        letters = sorted(heapq.nsmallest(size, counts, key=lambda letter: (-counts[letter], letter)))
    tokens = [*special.values(), *letters]
    if alphabet == "protein":
        *first, mask = special.values()
        tokens = [*first, *letters, "<null_1>", mask]
    ids = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(ids, [], unk_token=special["unk_token"]))
    spaces = [] if any(map(str.isspace, letters)) else [normalizers.Replace(Regex(r"\s"), "")]
    tokenizer.normalizer = normalizers.Sequence([normalizer, *spaces])
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(list(special.values()))
    return tokenizer


def inside_words(letter: str) -> bool:
    """Whether BERT's word splitting ever leaves the character inside a word."""
    is_punctuation = unicodedata.category(letter)[0] == "P" or (letter.isascii() and not letter.isalnum())
    return not is_punctuation and not 0x4E00 <= ord(letter) <= 0x9FFF
