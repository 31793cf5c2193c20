"""Text for pretraining that `tiryns prepare corpus` has tokenised: `data.source=store:FOLDER`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiryns.runner.data.store import sharded
from tiryns.runner.data.text.holdout import TRAIN
from tiryns.runner.data.text.prepare import PreparedText, verify
from tiryns.runner.data.text.pretraining import PretrainingData
from tiryns.runner.data.text.tokenizer import load_tokenizer, tokenizer_fingerprint


@dataclass(frozen=True)
class _Place:
    """The folder or URL of a store, in place of a source of documents."""

    place: str

    def describe(self) -> str:
        """One line for the summary of a run."""
        return f"store:{self.place}"

    def fingerprint(self) -> dict[str, str]:
        """Returns the source's entry in the manifest. It has no hash: the sets' fingerprints cover the content."""
        return {"source": "store"}


class StoredPretrainingData(PretrainingData):
    """Pretraining data from a sharded store, which decides tokenizer, cutting and validation documents.

    A store under a URL is copied into the cache first.
    """

    train: sharded.ShardedStore  # type: ignore[assignment]
    validation: dict[str, sharded.ShardedStore]  # type: ignore[assignment]
    source: _Place  # type: ignore[assignment]

    def prepare_data(self) -> None:
        """Opens the store; raises ValueError if settings contradict it, FileNotFoundError if it is missing."""
        if self.prepared is not None:
            return
        corpus = self._open_corpus()
        mode, corpus_mode = self.settings.long_documents, corpus.meta["long_documents"]
        if mode != corpus_mode:
            raise ValueError(
                f"data.long_documents={mode}, but the sequences of {self.source.place} were cut with {corpus_mode}"
            )
        if self.tokenizer_name:
            fingerprint = tokenizer_fingerprint(load_tokenizer(self.tokenizer_name, self.needed_tokens))
            if fingerprint != corpus.meta["tokenizer"]:
                raise ValueError(
                    f"data.tokenizer={self.tokenizer_name!r} is not the tokenizer of {self.source.place}, "
                    f"which is in {corpus.folder / 'tokenizer'}"
                )
        shards = [shard for store in corpus.sets.values() for shard in store.shards]
        verify(shards)
        self.validation = {name: store for name, store in corpus.sets.items() if name != TRAIN}
        self.train = corpus.sets[TRAIN]
        entries = {name: corpus.meta["sets"][name] for name in self.validation}
        self.prepared = PreparedText(
            train=corpus.folder,
            validation=dict.fromkeys(self.validation, corpus.folder),
            tokenizer=corpus.folder / "tokenizer",
            documents={name: content["documents"] for name, content in corpus.meta["sets"].items()},
            **{figure: {n: content[figure] for n, content in entries.items()} for figure in sharded.FIGURES},
        )
        try:
            self.tokenizer = load_tokenizer(str(self.prepared.tokenizer.absolute()), self.needed_tokens)
        except FileNotFoundError as error:
            raise ValueError(
                f"the store {self.source.place} has no tokenizer that can be loaded in {self.prepared.tokenizer}: "
                "prepare it again in another folder"
            ) from error
        vocabulary = len(self.tokenizer)
        for shard in shards:
            if shard.max_token_id >= vocabulary:
                raise ValueError(
                    f"{shard.folder} has token id {shard.max_token_id}, but the tokenizer of the store "
                    f"{self.source.place} has {vocabulary} tokens: prepare it again in another folder"
                )
        self.prepare_lengths()

    def _open(self, source: object) -> Any:
        return _Place(str(source).removeprefix("store:"))

    def _open_corpus(self) -> sharded.OpenedStore:
        """Returns the store if its sequences have the length of the settings, else the store of that length beside it."""
        place, cache = self.source.place, Path(self.settings.cache_dir).expanduser()
        corpus, length = sharded.open_store(place, cache), self.settings.max_length
        if (first := corpus.meta["max_length"]) == length:
            return corpus
        other = sharded.place_at_length(place, length)
        try:
            corpus_at_length = sharded.open_store(other, cache)
        except FileNotFoundError as error:
            raise ValueError(
                f"data.max_length={length}, but the sequences of {place} were cut with {first}: set "
                f"data.max_length={first}, or prepare the store with --max-length {first} {length}, which also makes "
                f"the store {other} (now: {error})"
            ) from error
        sharded.check_same_documents(place, other)
        return corpus_at_length
