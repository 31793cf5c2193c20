"""From sources to token stores: hold out, train or load the tokenizer, tokenise, keep for the next run."""

import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from iolaus.runner.data.read.documents import Source
from iolaus.runner.data.store.cached import key_of, locked, sync, write_errors, write_json
from iolaus.runner.data.store.reader import FORMAT_VERSION, TokenStore, entropy, ordinary_counts
from iolaus.runner.data.text.chunking import SHORTEST_CHUNK, Chunker, check_chunking
from iolaus.runner.data.text.holdout import TRAIN, Part, check_validation, divide
from iolaus.runner.data.text.tokenise import rust_threads, tokenise
from iolaus.runner.data.text.tokenizer import VERSION as TOKENIZER_VERSION
from iolaus.runner.data.text.tokenizer import (
    check_tokenizer_settings,
    load_tokenizer,
    tokenizer_fingerprint,
    train_tokenizer,
)

log = logging.getLogger("iolaus")

VERSION = 1
"""Raised when the same inputs would give other sequences."""

_QUICKLY_READ = 1 << 24
"""Tokens that are hashed in some 0.1 s."""

_TOKENIZER_TEXT = 200_000_000
"""Characters a tokenizer is trained on at most; of more text a sample is taken."""


@dataclass(frozen=True)
class PreparedText:
    """The result of `prepare_text` in the cache."""

    train: Path
    """Store of the training sequences."""
    validation: dict[str, Path]
    """Store of each validation set."""
    tokenizer: Path
    """Folder of the tokenizer, for `AutoTokenizer.from_pretrained`."""
    documents: dict[str, int] = field(default_factory=dict)
    """Documents of `train` and of each validation set."""
    unigram_entropy: dict[str, float] = field(default_factory=dict)
    """Nats per token of each validation set under its own frequencies."""
    tokens_per_byte: dict[str, float] = field(default_factory=dict)
    """Ordinary tokens per byte of the text of each validation set; none of sets that came as token ids."""


def prepare_text(
    source: Source,
    validation_sources: dict[str, Source],
    validation_documents: float,
    tokenizer: str | None,
    tokenizer_kind: str,
    vocab_size: int,
    lowercase: bool,
    max_length: int,
    long_documents: str,
    cache_dir: Path,
    seed: int,
    keep_repeated: bool = False,
) -> PreparedText:
    """Tokenised training and validation sequences in `cache_dir`, made unless they are there for these very inputs.

    Without validation sources `validation_documents` (a number, or a share below 1) are held out under the name
    `held_out`. No text of a validation set is trained on, unless `keep_repeated` says to keep those that are in both.
    Processes that prepare the same at once wait for one of them; a killed preparation is continued.

    Raises:
        ValueError: a setting or document that cannot be used; too few documents.
        OSError: the cache cannot be written or has no room.
    """
    if not tokenizer:
        check_tokenizer_settings(tokenizer_kind, vocab_size)
    check_validation(validation_documents)
    _check_sources(source, validation_sources, tokenizer)
    check_chunking(max_length, long_documents)
    loaded = load_tokenizer(tokenizer) if tokenizer else None
    text = _text_inputs(source, validation_sources, validation_documents, seed)
    if loaded:
        tokenizer_inputs: dict[str, Any] = {"content": tokenizer_fingerprint(loaded)}
    else:
        training = {"kind": tokenizer_kind, "vocab_size": vocab_size, "lowercase": lowercase}
        tokenizer_inputs = {**training, "text": text, "version": TOKENIZER_VERSION}
    cutting = {"max_length": max_length, "long_documents": long_documents, "shortest_chunk": SHORTEST_CHUNK}
    inputs = {"text": text, "tokenizer": tokenizer_inputs, **cutting, "versions": [VERSION, FORMAT_VERSION]}
    if keep_repeated:
        inputs["keep_repeated"] = True
    folder = cache_dir / "text" / key_of(inputs)
    if prepared := _recall(folder, cache_dir):
        return prepared
    with write_errors(folder, None), locked(folder):
        if prepared := _recall(folder, cache_dir):
            return prepared
        parts = divide(source, validation_sources, validation_documents, seed, keep_repeated)
        make = (
            partial(_train, parts[TRAIN], tokenizer_kind, vocab_size, lowercase)
            if not loaded
            else lambda: loaded
        )
        tokenizer_folder = cache_dir / "tokenizers" / key_of(tokenizer_inputs)
        _keep_tokenizer(tokenizer_folder, make)
        prepared = _fill(folder, parts, tokenizer_folder, cutting)
        _remember(prepared, folder, cache_dir)
        return prepared


def _fill(
    folder: Path, parts: dict[str, Part], tokenizer_folder: Path, cutting: dict[str, Any]
) -> PreparedText:
    """The stores of all parts."""
    tokenizer = load_tokenizer(str(tokenizer_folder))
    chunker = Chunker(tokenizer.backend_tokenizer, cutting["max_length"], cutting["long_documents"])
    attributes, size = {**cutting, "tokenizer": tokenizer_fingerprint(tokenizer)}, len(tokenizer)
    stores = {name: tokenise(part, chunker, size, folder / name, attributes) for name, part in parts.items()}
    held_out = {name: store for name, store in stores.items() if name != TRAIN}
    return PreparedText(
        train=folder / TRAIN,
        validation={name: folder / name for name in parts if name != TRAIN},
        tokenizer=tokenizer_folder,
        documents={name: int(part.kept.sum()) for name, part in parts.items()},
        **token_figures(held_out, tokenizer.all_special_ids),
    )


def token_figures(stores: dict[str, TokenStore], special_ids: list[int]) -> dict[str, dict[str, float]]:
    """`unigram_entropy` of each store, and `tokens_per_byte` of those that came as text."""
    counts = {name: ordinary_counts(store, special_ids) for name, store in stores.items()}
    return {
        "unigram_entropy": {name: entropy(some) for name, some in counts.items()},
        "tokens_per_byte": {
            n: int(some.sum()) / count for n, some in counts.items() if (count := stores[n].num_bytes)
        },
    }


@dataclass(frozen=True)
class _Texts:
    """Texts to train a tokenizer on: those of a part, every n-th of a long one. Can be read repeatedly."""

    part: Part

    def __iter__(self) -> Iterator[str]:
        stride = 1 + self.part.num_characters // _TOKENIZER_TEXT
        return (str(document) for _, document in islice(self.part.numbered(), 0, None, stride))


def _check_sources(source: Source, validation_sources: dict[str, Source], tokenizer: str | None) -> None:
    for name, other in validation_sources.items():
        if not re.fullmatch(r"\w[\w.-]*", name) or name == TRAIN:
            raise ValueError(
                f"validation set {name!r}: names are of letters, digits, - and _, and none is {TRAIN!r}"
            )
        if other.tokenized != source.tokenized:
            raise ValueError(
                f"{source.describe()} and validation set {name!r}: only one of them is tokenised already"
            )
    if source.tokenized and not tokenizer:
        raise ValueError(
            f"{source.describe()} is tokenised already (it has a column input_ids): set data.tokenizer to the name or "
            "folder of the tokenizer its ids belong to"
        )


def _text_inputs(
    source: Source, validation_sources: dict[str, Source], validation_documents: float, seed: int
) -> dict[str, Any]:
    """The settings that the documents of every store depend on."""
    inputs: dict[str, Any] = {"source": source.fingerprint()}
    if validation_sources:
        inputs["validation"] = {name: other.fingerprint() for name, other in validation_sources.items()}
    elif validation_documents:
        inputs |= {"validation_documents": validation_documents, "seed": seed}
    return inputs


def _keep_tokenizer(folder: Path, make: Callable[[], Any]) -> None:
    """Writes the result of `make` beside the folder and renames it, unless it exists."""
    beside = folder.parent / f".{folder.name}.partial"
    with locked(folder):
        if folder.exists():
            return
        shutil.rmtree(beside, ignore_errors=True)  # what a killed process left
        try:
            make().save_pretrained(beside)
            for file in beside.iterdir():
                sync(file)
            os.rename(beside, folder)
        except Exception as error:
            if number := re.search(r"\(os error (\d+)\)", str(error)):  # rust's kind of OSError
                raise OSError(int(number[1]), os.strerror(int(number[1])), str(folder)) from error
            raise
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def _train(part: Part, kind: str, vocab_size: int, lowercase: bool) -> Any:
    log.info("training a %s tokenizer of %s tokens", kind, f"{vocab_size:,}")
    with rust_threads():
        return train_tokenizer(_Texts(part), kind, vocab_size, lowercase)


def _remember(prepared: PreparedText, folder: Path, cache_dir: Path) -> None:
    """Writes last what marks the preparation as complete; paths relative, so that the cache may be moved."""
    content = {
        "tokenizer": prepared.tokenizer.relative_to(cache_dir).as_posix(),
        "validation": list(prepared.validation),
        "documents": prepared.documents,
        "unigram_entropy": prepared.unigram_entropy,
        "tokens_per_byte": prepared.tokens_per_byte,
    }
    write_json(folder / "prepared.json", content)
    sync(folder)


def _recall(folder: Path, cache_dir: Path) -> PreparedText | None:
    """The result of an earlier preparation, if it is complete."""
    try:
        content = json.loads((folder / "prepared.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    prepared = PreparedText(
        train=folder / TRAIN,
        validation={name: folder / name for name in content["validation"]},
        tokenizer=cache_dir / content["tokenizer"],
        documents=content["documents"],
        unigram_entropy=content["unigram_entropy"],
        tokens_per_byte=content["tokens_per_byte"],
    )
    stores = [prepared.train, *prepared.validation.values()]
    if not prepared.tokenizer.is_dir() or not all(store.is_dir() for store in stores):
        return None
    for store in stores:
        _check(TokenStore(store))
    return prepared


def _check(store: TokenStore) -> None:
    """Reads and checks a store if it is small, or if it was changed after it was finished.

    Raises:
        ValueError: the content is not what was written.
    """
    finished = (store.folder / "meta.json").stat().st_mtime_ns  # the last file to be written
    touched = any(
        (store.folder / name).stat().st_mtime_ns > finished for name in ("tokens.bin", "offsets.bin")
    )
    if touched or store.num_tokens <= _QUICKLY_READ:
        store.verify()
    if touched:
        with suppress(OSError):  # a cache that others own
            os.utime(store.folder / "meta.json")
