"""Text for pretraining that `iolaus prepare corpus` has tokenised: `data.source=store:FOLDER`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iolaus.runner.data.store.sharded import OpenedStore, ShardedStore, open_store
from iolaus.runner.data.text.holdout import TRAIN
from iolaus.runner.data.text.prepare import PreparedText, verify
from iolaus.runner.data.text.pretraining import PretrainingData
from iolaus.runner.data.text.tokenizer import load_tokenizer, tokenizer_fingerprint

_FIGURES = ("unigram_entropy", "tokens_per_byte")


@dataclass(frozen=True)
class _Place:
    """The folder or URL of a store, where other data has a source of documents."""

    place: str

    def describe(self) -> str:
        """One line for the summary of a run."""
        return f"store:{self.place}"

    def fingerprint(self) -> dict[str, str]:
        """What a manifest says of the source; the fingerprints of the sets say what is in them."""
        return {"source": "store"}


class StoredPretrainingData(PretrainingData):
    """The same settings, served from a sharded store, which decides tokenizer, cutting and validation documents.

    A store under a URL is copied into the cache first.
    """

    train: ShardedStore  # type: ignore[assignment]
    validation: dict[str, ShardedStore]  # type: ignore[assignment]
    source: _Place  # type: ignore[assignment]

    def prepare_data(self) -> None:
        """Opens the store; raises ValueError where settings contradict it, FileNotFoundError where there is none."""
        if self.prepared is not None:
            return
        opened = open_store(self.source.place, Path(self.settings.cache_dir).expanduser())
        self._check(opened)
        verify([shard for store in opened.sets.values() for shard in store.shards])
        self.validation = {name: store for name, store in opened.sets.items() if name != TRAIN}
        self.train = opened.sets[TRAIN]
        held_out = {name: opened.meta["sets"][name] for name in self.validation}
        self.prepared = PreparedText(
            train=opened.folder,
            validation=dict.fromkeys(self.validation, opened.folder),
            tokenizer=opened.folder / "tokenizer",
            documents={name: content["documents"] for name, content in opened.meta["sets"].items()},
            **{figure: {n: content[figure] for n, content in held_out.items()} for figure in _FIGURES},
        )
        self.prepare_lengths()

    def _open(self, source: Any) -> Any:
        """The place of the store, which `prepare_data` opens."""
        return _Place(str(source).removeprefix("store:"))

    def _check(self, opened: OpenedStore) -> None:
        """Checks what the settings say twice; ValueError for what is otherwise in the store."""
        for name in ("max_length", "long_documents"):
            if getattr(self.settings, name) != opened.meta[name]:
                raise ValueError(
                    f"data.{name}={getattr(self.settings, name)}, but the sequences of {self.source.place} were cut with "
                    f"{opened.meta[name]}: set data.{name}={opened.meta[name]}, or prepare it with the other"
                )
        if self.tokenizer_name:
            fingerprint = tokenizer_fingerprint(load_tokenizer(self.tokenizer_name))
            if fingerprint != opened.meta["tokenizer"]:
                raise ValueError(
                    f"data.tokenizer={self.tokenizer_name!r} is not the tokenizer of {self.source.place}, "
                    f"which is in {opened.folder / 'tokenizer'}"
                )
