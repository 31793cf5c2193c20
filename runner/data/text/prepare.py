"""From sources to token stores: hold out, train or load the tokenizer, tokenise, keep for the next run."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.data.pretraining import PretrainingData
from tiryns.runner import log
from tiryns.runner.data.micro_batch import Tokenizer
from tiryns.runner.data.read.documents import Source
from tiryns.runner.data.store.reader import FORMAT_VERSION, TokenStore, entropy, ordinary_counts
from tiryns.runner.data.store.writer import entering, key_of, lock_of, sync, write_errors, write_json
from tiryns.runner.data.text import tokenizer as text_tokenizer
from tiryns.runner.data.text.chunking import Chunker, check_chunking
from tiryns.runner.data.text.holdout import TRAIN, Part, check_validation, divide
from tiryns.runner.data.text.pool import rust_threads
from tiryns.runner.data.text.tokenise import tokenise
from tiryns.runner.data.text.tokenizer import MASKING, load_tokenizer, tokenizer_fingerprint, train_tokenizer
from tiryns.runner.run.files import system_errors

VERSION = 1
"""Increased when the same inputs would give other sequences."""

_QUICKLY_READ = 1 << 24  # tokens that are hashed in some 0.1 s
_TOKENIZER_TEXT = 200_000_000  # most characters that a tokenizer is trained on: a sample of more text


@dataclass(frozen=True)
class PreparedText:
    """The result of `prepare_text` in the cache."""

    train: Path  # store of the training sequences
    validation: dict[str, Path]  # store of each validation set
    tokenizer: Path  # folder for `AutoTokenizer.from_pretrained`
    documents: dict[str, int] = field(default_factory=dict)  # in `train` and in each validation set
    unigram_entropy: dict[str, float] = field(default_factory=dict)  # nats per token of each validation set
    tokens_per_byte: dict[str, float] = field(default_factory=dict)  # of each set that came as text


def prepare_text(
    source: Source,
    validation_sources: dict[str, Source],
    config: PretrainingData,
    keep_repeated: bool = False,
    exclusions: NDArray[np.uint64] | None = None,
    needed: Sequence[str] = MASKING,
    log_lines: set[str] | None = None,
) -> PreparedText:
    """Returns tokenised training and validation sequences, made unless the cache has them for the same inputs.

    If there are no validation sources, documents are held out as the set `held_out`, by the settings `config`. Texts of
    validation sets (unless `keep_repeated`) and texts with a digest in `exclusions` are not trained on. One process
    prepares while others wait; a killed preparation is continued.

    Raises:
        ValueError: a setting or document that cannot be used; too few documents.
        OSError: the cache cannot be written or has no room.
    """
    cache_dir = Path(config.cache_dir).expanduser()
    text = text_inputs(source, validation_sources, config)
    cutting = check_chunking(config.max_length, config.long_documents)
    tokenizer = load_tokenizer(config.tokenizer, needed) if config.tokenizer else None
    if tokenizer is not None:
        tokenizer_inputs: dict[str, object] = {"content": tokenizer_fingerprint(tokenizer)}
    else:
        training = text_tokenizer.check_training(config.tokenizer_kind, config.vocab_size, config.lowercase)
        tokenizer_inputs = {**training, "text": text, "version": text_tokenizer.VERSION}
    inputs = {"text": text, "tokenizer": tokenizer_inputs, **cutting, "versions": [VERSION, FORMAT_VERSION]}
    if keep_repeated:
        inputs["keep_repeated"] = True
    if exclusions is not None and len(exclusions):
        inputs["left_out"] = hashlib.blake2b(exclusions.astype("<u8").data, digest_size=12).hexdigest()
    folder = cache_dir / "text" / key_of(inputs)
    if prepared_text := _recall(folder, cache_dir):
        return prepared_text
    with write_errors(folder), lock_of(folder):
        if prepared_text := _recall(folder, cache_dir):
            return prepared_text
        holdout = (config.validation_documents, config.seed)
        parts = divide(source, validation_sources, *holdout, keep_repeated, exclusions, log_lines)
        tokenizer_folder = cache_dir / "tokenizers" / key_of(tokenizer_inputs)
        keep_tokenizer(tokenizer_folder, lambda: tokenizer or train_on([parts[TRAIN]], config))
        prepared_text = _fill(folder, parts, tokenizer_folder, cutting)
        content = {
            "tokenizer": tokenizer_folder.relative_to(cache_dir).as_posix(),  # the cache may be moved
            "validation": list(prepared_text.validation),
            **{name: getattr(prepared_text, name) for name in _FIGURES},
        }
        write_json(folder / "prepared.json", content)  # the last file: it marks the preparation as complete
        sync(folder)
        return prepared_text


def _fill(
    folder: Path, parts: dict[str, Part], tokenizer_folder: Path, cutting: dict[str, Any]
) -> PreparedText:
    tokenizer = load_tokenizer(str(tokenizer_folder), needed=("pad",))
    chunker = Chunker(tokenizer.backend_tokenizer, cutting["max_length"], cutting["long_documents"])
    attributes, size = {**cutting, "tokenizer": tokenizer_fingerprint(tokenizer)}, len(tokenizer)
    stores = {name: tokenise(part, chunker, size, folder / name, attributes) for name, part in parts.items()}
    del stores[TRAIN]
    return PreparedText(
        train=folder / TRAIN,
        validation={name: store.folder for name, store in stores.items()},
        tokenizer=tokenizer_folder,
        documents={name: int(part.mask.sum()) for name, part in parts.items()},
        **token_figures(stores, tokenizer.all_special_ids),
    )


def token_figures(stores: dict[str, TokenStore], special_ids: list[int]) -> dict[str, dict[str, float]]:
    """Returns `unigram_entropy` of each store, and `tokens_per_byte` (of ordinary tokens) of stores made from text."""
    counts = {name: ordinary_counts(store, special_ids) for name, store in stores.items()}
    sizes = {name: store.num_bytes for name, store in stores.items()}
    return {
        "unigram_entropy": {name: entropy(store_counts) for name, store_counts in counts.items()},
        "tokens_per_byte": {name: int(counts[name].sum()) / size for name, size in sizes.items() if size},
    }


def text_inputs(
    source: Source, validation_sources: dict[str, Source], config: PretrainingData
) -> dict[str, object]:
    """Returns the inputs of the cache key that decide the texts of all sets. ValueError for unusable settings."""
    check_validation(config.validation_documents)
    for name, other in validation_sources.items():
        if not re.fullmatch(r"\w[\w.-]*", name) or name == TRAIN:
            rule = f"names are of letters, digits, - and _, and must not be {TRAIN!r}"
            raise ValueError(f"validation set {name!r}: {rule}")
        if other.tokenized != source.tokenized:
            both = f"{source.describe()} and validation set {name!r}"
            raise ValueError(f"{both}: only one of them is tokenised already")
    if source.tokenized and not config.tokenizer:
        raise ValueError(
            f"{source.describe()} is tokenised already (it has a column input_ids): set data.tokenizer to the name or "
            "folder of the tokenizer its ids belong to"
        )
    text: dict[str, object] = {"source": source.fingerprint()}
    if validation_sources:
        text["validation"] = {name: other.fingerprint() for name, other in validation_sources.items()}
    elif config.validation_documents:
        text |= {"validation_documents": config.validation_documents, "seed": config.seed}
    return text


@dataclass(frozen=True)
class _Texts:
    """Texts to train a tokenizer on: all documents, or every n-th if there is much text. Can be read repeatedly."""

    parts: Sequence[Part]

    def __iter__(self) -> Iterator[str]:
        stride = 1 + sum(part.num_characters for part in self.parts) // _TOKENIZER_TEXT
        documents = chain.from_iterable(part.numbered_documents() for part in self.parts)
        return (str(document) for _, document in islice(documents, 0, None, stride))


def keep_tokenizer(folder: Path, make: Callable[[], Tokenizer]) -> None:
    """Writes the tokenizer from `make` to a temporary folder and renames it, unless `folder` exists."""
    with lock_of(folder):
        if not folder.exists():
            with entering(folder) as partial, system_errors(folder):
                make().save_pretrained(partial)


def train_on(parts: Sequence[Part], config: PretrainingData) -> Tokenizer:
    """Trains a tokenizer on the texts of some parts, by the settings `config`."""
    log.info("training a %s tokenizer of %s tokens", config.tokenizer_kind, f"{config.vocab_size:,}")
    with rust_threads():
        return train_tokenizer(_Texts(parts), config.tokenizer_kind, config.vocab_size, config.lowercase)


_FIGURES = ("documents", "unigram_entropy", "tokens_per_byte")


def _recall(folder: Path, cache_dir: Path) -> PreparedText | None:
    try:
        content = json.loads((folder / "prepared.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    stores = {name: folder / name for name in (TRAIN, *content["validation"])}
    tokenizer = cache_dir / content["tokenizer"]
    if not all(path.is_dir() for path in (tokenizer, *stores.values())):
        return None
    for path in stores.values():
        verify([TokenStore(path)])
    return PreparedText(stores.pop(TRAIN), stores, tokenizer, **{name: content[name] for name in _FIGURES})


def verify(stores: Sequence[TokenStore]) -> None:
    """Raises ValueError for altered content; reads large stores only if they were touched after they were finished."""
    quickly_read = sum(store.num_tokens for store in stores) <= _QUICKLY_READ
    for store in stores:
        finish_time = (store.folder / "meta.json").stat().st_mtime_ns  # the last file to be written
        files = (store.folder / "tokens.bin", store.folder / "offsets.bin")
        is_newer = any(file.stat().st_mtime_ns > finish_time for file in files)
        if is_newer or quickly_read:
            store.verify()
        if is_newer:
            with suppress(OSError):  # a cache that others own
                os.utime(store.folder / "meta.json")
