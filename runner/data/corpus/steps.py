"""Steps of datatrove's pipelines: the documents of a task's files, and the shard they become."""

import hashlib
import inspect
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from datatrove.data import Document
from datatrove.pipeline import filters
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup import exact_dedup as exact
from datatrove.pipeline.dedup import minhash
from datatrove.utils.batching import batched
from datatrove.utils.hashing import HashConfig

from tiryns.conf.values import check_choice, check_names
from tiryns.runner.data.corpus.plan import CorpusPlan, Step
from tiryns.runner.data.store.reader import TokenStore, ordinary_counts
from tiryns.runner.data.store.remote import Folder
from tiryns.runner.data.store.writer import Batch, StoreWriter
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.holdout import HELD_OUT, TRAIN, are_held_out_by_content

FILE = "tiryns_file"
"""The key of the file's number in a document's metadata."""

_BATCH = 1024  # documents that are tokenised at once

Documents = Iterable[Document]


class ReadFiles(PipelineStep):
    """Gives the documents of the task's files, in their order."""

    type, name = "READER", "tiryns"

    def __init__(self, plan: CorpusPlan) -> None:
        super().__init__()
        self.plan = plan

    def run(self, data: Documents | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yields the documents; `rank` is the number of the task."""
        for number in self.plan.files_of(rank):
            for place, text in enumerate(self.plan.texts(number)):
                self.stat_update("documents")
                yield Document(text=text, id=f"{number}/{place}", metadata={FILE: number})


class ForEachFile(PipelineStep):
    """Runs a step of datatrove's deduplication for each file as if it were a task.

    So the repetitions found, and the copies kept, are the same for any number of tasks.
    """

    def __init__(self, step: PipelineStep, num_files: int) -> None:
        super().__init__()
        self.step, self.num_files, self.stats = step, num_files, step.stats
        self.type, self.name = step.type, step.name

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yields the documents that the step gives for each file, one file after the other."""
        for number, documents in groupby(data, key=lambda document: document.metadata[FILE]):
            yield from self.step.run(documents, number, self.num_files) or ()


class WriteShard(PipelineStep):
    """Tokenises and cuts the documents into the task's shard of each set; content decides which documents are held out.

    The shard's `record.json` has the counts, and for each file a hash of its sequences, from which `WriteIndex` makes the
    fingerprint. In a local folder a shard appears whole or not at all; elsewhere, an incomplete shard is written again.
    """

    type, name = "WRITER", "tiryns"

    def __init__(self, plan: CorpusPlan, store: Folder, tokenizer: str, special_ids: list[int]) -> None:
        super().__init__()
        self.plan, self.store, self.tokenizer, self.special_ids = plan, store, tokenizer, special_ids

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Writes the shard; gives no documents."""
        name = f"shards/{rank:05d}"
        if self.store.local is None:
            partial = Path(tempfile.mkdtemp(prefix="tiryns-"))
        else:  # on the disk of the store
            partial = self.store.local / "shards" / f".{rank:05d}.partial"
            shutil.rmtree(partial, ignore_errors=True)  # of a killed task
            partial.mkdir(parents=True)
        try:
            self._write(data, partial)
            self.store.take(partial, name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        yield from ()

    def _write(self, data: Documents, folder: Path) -> None:
        from tokenizers import Tokenizer

        cutting, tokenizer = self.plan.attributes, Tokenizer.from_str(self.tokenizer)
        chunker = Chunker(tokenizer, cutting["max_length"], cutting["long_documents"])
        names = [TRAIN, HELD_OUT] if self.plan.validation else [TRAIN]
        sets = {name: _Set(folder / name, self.plan) for name in names}
        try:
            for _, documents in groupby(data, key=lambda document: document.metadata[FILE]):
                for batch in batched((document.text for document in documents), _BATCH):
                    is_held_out = are_held_out_by_content(batch, self.plan.validation, self.plan.seed)
                    for name, part in sets.items():
                        mask = is_held_out if name == HELD_OUT else ~is_held_out
                        texts = [text for text, mine in zip(batch, mask, strict=True) if mine]
                        with self.track_time("batch"):
                            part.append(texts, chunker)
                        self.stat_update(f"{name}_documents", value=len(texts))
                for part in sets.values():
                    part.end_file()
            record = {name: part.finish(self.special_ids) for name, part in sets.items()}
        finally:
            for part in sets.values():
                part.writer.close()
        (folder / "record.json").write_text(json.dumps(record))


class _Set:
    def __init__(self, folder: Path, plan: CorpusPlan) -> None:
        self.writer = StoreWriter(folder, plan.vocab_size, plan.attributes)
        self.documents = 0
        self.digests: list[str] = []  # of the files that gave sequences
        self._begin_file()

    def append(self, texts: list[str], chunker: Chunker) -> None:
        """Tokenises and appends texts."""
        if not texts:
            return
        (tokens, lengths), num_bytes = chunker.measured_texts(texts)
        self.documents += len(texts)
        self.writer.append(Batch(tokens, lengths, 0, num_bytes))
        for part, numbers, dtype in zip(self.hashes, (tokens, lengths), ("<u4", "<i4"), strict=True):
            part.update(np.ascontiguousarray(numbers, dtype).data)

    def end_file(self) -> None:
        """Keeps the hash of the file's sequences, if there were any."""
        if self.sequences_before < self.writer.num_sequences:
            parts = "".join(part.hexdigest() for part in self.hashes)
            self.digests.append(hashlib.blake2b(parts.encode(), digest_size=16).hexdigest())
        self._begin_file()

    def finish(self, special_ids: list[int]) -> dict[str, object] | None:
        """Completes the store; returns its entry in the record, or None without a sequence."""
        if not self.writer.num_sequences:
            self.writer.discard()
            return None
        self.writer.finish()
        store = TokenStore(self.writer.folder)
        counts = ordinary_counts(store, special_ids).tolist() if store.folder.name == HELD_OUT else []
        names = ("fingerprint", "num_sequences", "num_tokens", "num_bytes")
        record = {"documents": self.documents, "digests": self.digests, "counts": counts}
        return record | {name: store.meta[name] for name in names}

    def _begin_file(self) -> None:
        self.hashes = [hashlib.blake2b(digest_size=16) for _ in range(2)]
        self.sequences_before = self.writer.num_sequences


T = TypeVar("T")

FILTERS = (
    "C4BadWordsFilter", "C4ParagraphFilter", "C4QualityFilter", "FastTextClassifierFilter", "FineWebQualityFilter",
    "GopherQualityFilter", "GopherRepetitionFilter", "LanguageFilter", "RegexFilter", "UnigramLogProbFilter", "URLFilter",
)  # fmt: skip
"""Filters of `datatrove.pipeline.filters` that judge each document alone, so the number of tasks has no effect."""


class Stage(NamedTuple):
    """A pipeline that `tasks` tasks run; the next stage needs all of them."""

    name: str
    steps: list[PipelineStep]
    tasks: int


def make(option: str, target: Callable[..., T], settings: Mapping[str, object], **arguments: object) -> T:
    """Returns `target(**settings, **arguments)`; raises ValueError for an unknown, missing or refused setting."""
    takes = inspect.signature(target)
    check_names(option, settings, [name for name in takes.parameters if name not in arguments], ": there are")
    try:
        takes.bind(**settings, **arguments)
        return target(**settings, **arguments)
    except (TypeError, ValueError, AssertionError) as error:
        raise ValueError(f"{option}: {error}") from error


def make_filters(steps: list[Step]) -> list[PipelineStep]:
    """Returns the filters; ValueError for an unknown one or a wrong setting, ImportError for a missing package."""
    for step in steps:
        check_choice("--filter", step.name, FILTERS)
    return [make(f"--filter {step.name}", getattr(filters, step.name), step.settings) for step in steps]


def deduplication(
    plan: CorpusPlan, store: Folder, before: list[PipelineStep]
) -> tuple[list[Stage], list[PipelineStep]]:
    """Returns the stages that find repeated documents among those of the steps `before`, and the steps that drop them.

    One copy of a repeated document is kept: the same copy for any number of tasks.
    """
    if plan.deduplication is None:
        return [], []
    name, settings = plan.deduplication
    ways: dict[str, Callable[..., tuple[list[Stage], PipelineStep]]] = {"exact": _exact, "minhash": _minhash}
    check_choice("--deduplicate", name, ways)
    stages, drop = make(f"--deduplicate {name}", ways[name], settings, plan=plan, store=store, before=before)
    return stages, [ForEachFile(drop, len(plan.files))]


def _content(document: Document) -> bytes:
    return document.text.encode("utf-8", "surrogatepass")  # type: ignore[no-any-return]


def _exact(
    plan: CorpusPlan, store: Folder, before: list[PipelineStep], finder_workers: int = 1
) -> tuple[list[Stage], PipelineStep]:
    folders = [store.at(f"deduplicate/{part}") for part in ("signatures", "repeated")]
    config = exact.ExactDedupConfig(content_getter=_content)
    sign = ForEachFile(exact.ExactDedupSignature(folders[0], config, finder_workers), len(plan.files))
    stages = [
        Stage("signatures", [*before, sign], plan.tasks),
        Stage("repeated", [exact.ExactFindDedups(*folders, config)], finder_workers),
    ]
    return stages, exact.ExactDedupFilter(folders[1], config)


def _minhash(
    plan: CorpusPlan,
    store: Folder,
    before: list[PipelineStep],
    n_grams: int = 5,
    num_buckets: int = 14,
    hashes_per_bucket: int = 8,
    language: str = "eng",
) -> tuple[list[Stage], PipelineStep]:
    folders = [store.at(f"deduplicate/{part}") for part in ("signatures", "pairs", "repeated")]
    config = minhash.MinhashConfig(
        n_grams, num_buckets, hashes_per_bucket, hash_config=HashConfig(hash_fc="sha1")
    )  # newer releases of xxhash refuse the strings that datatrove gives them
    sign = minhash.MinhashDedupSignature(folders[0], config, language)
    stages = [
        Stage("signatures", [*before, ForEachFile(sign, len(plan.files))], plan.tasks),
        Stage("pairs", [minhash.MinhashDedupBuckets(folders[0], folders[1], config=config)], num_buckets),
        Stage("repeated", [minhash.MinhashDedupCluster(folders[1], folders[2], config)], 1),
    ]
    return stages, minhash.MinhashDedupFilter(folders[2])
