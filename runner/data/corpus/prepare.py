"""Makes a sharded store from the files of a source: plans, runs the stages, and writes the index of the shards."""

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dill
import numpy as np
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor, RayPipelineExecutor, SlurmPipelineExecutor
from datatrove.executor.base import PipelineExecutor
from datatrove.pipeline.base import PipelineStep
from loguru import logger

from tiryns.conf.values import check_choice
from tiryns.runner.data.corpus.plan import CorpusPlan, Step, find_files
from tiryns.runner.data.corpus.steps import ReadFiles, Stage, WriteShard, deduplication, make, make_filters
from tiryns.runner.data.store.reader import entropy
from tiryns.runner.data.store.remote import Folder
from tiryns.runner.data.store.sharded import FORMAT_VERSION, INDEX, Index, read_index
from tiryns.runner.data.store.writer import key_of
from tiryns.runner.data.text import pool
from tiryns.runner.data.text.chunking import check_chunking
from tiryns.runner.data.text.holdout import HELD_OUT, TRAIN
from tiryns.runner.data.text.tokenizer import load_tokenizer, tokenizer_fingerprint
from tiryns.runner.patches.datatrove import run_task

_MOST_BROKEN = 3
"""The number of broken process pools in a row, without a completed task, at which an error is raised."""


class Local(LocalPipelineExecutor):
    """datatrove's local executor, changed to run the task of a killed worker again instead of waiting for ever.

    Errors of a task are raised as they are; datatrove's own messages go to the logs alone.
    """

    def run(self) -> None:
        """Runs the tasks that are not complete; ChildProcessError where workers keep dying."""
        ranks, broken, executor = self.get_incomplete_ranks(), 0, dill.dumps(self)
        while ranks and self.workers > 1:
            worker_pool = pool.workers(self.workers, executor, get_context("spawn"))
            with contextlib.suppress(BrokenProcessPool), worker_pool as processes:
                for future in as_completed([processes.submit(_run, rank) for rank in ranks]):
                    future.result()
            before, ranks = len(ranks), self.get_incomplete_ranks()
            broken = broken + 1 if len(ranks) == before else 0
            if broken == _MOST_BROKEN:
                raise ChildProcessError(
                    f"workers were killed {broken} times without completing a task (out of memory?): give fewer "
                    "--workers; what is complete is kept"
                )
        for rank in ranks:
            _run(rank, executor)


def _run(rank: int, executor: bytes | None = None) -> None:
    """Runs a task of an executor, by default the worker's, on a new copy of the steps, because steps keep counts."""
    with contextlib.redirect_stderr(io.StringIO()):
        run_task(dill.loads(executor or pool.current_job()), rank)


EXECUTORS = {"local": Local, "slurm": SlurmPipelineExecutor, "ray": RayPipelineExecutor}
"""Executors by name."""


def make_executors(choice: Step, stages: list[Stage], store: Folder, workers: int) -> list[PipelineExecutor]:
    """Returns the executors of the stages; on SLURM each executor waits for the previous stage.

    Raises ValueError for an unknown executor, or a setting that datatrove's executor does not take.
    """
    check_choice("--executor", choice.name, EXECUTORS)
    settings = dict(choice.settings)
    executors: list[PipelineExecutor] = []
    if choice.name == "slurm":
        settings.setdefault("env_command", f"export PATH={Path(sys.executable).parent}:$PATH")
    for stage in stages:
        arguments: dict[str, object] = {
            "pipeline": stage.steps,
            "tasks": stage.tasks,
            "workers": min(workers, stage.tasks) if workers else -1,
            "logging_dir": store.at(f"logs/{stage.name}"),
        }
        if choice.name == "slurm":
            arguments |= {"depends": executors[-1] if executors else None, "job_name": f"tiryns-{stage.name}"}
        executors.append(make(f"--executor {choice.name}", EXECUTORS[choice.name], settings, **arguments))
    return executors


def run(executors: list[PipelineExecutor]) -> bool:
    """Runs the executors one after the other; on SLURM submits their tasks as jobs that wait for each other.

    Returns whether all tasks are complete: False if jobs were submitted. Raises ChildProcessError if tasks failed.
    """
    if isinstance(last := executors[-1], SlurmPipelineExecutor):
        if ranks := last.get_incomplete_ranks():
            last.run()
        return not ranks
    for executor in executors:
        executor.run()
        if failed_ranks := executor.get_incomplete_ranks():
            logs = executor.logging_dir.resolve_paths("logs")
            raise ChildProcessError(
                f"{len(failed_ranks)} of {executor.world_size} tasks did not complete, such as {failed_ranks[0]}; "
                f"their logs are in {logs}. The same command runs them again"
            )
    return True


def prepare_corpus(
    source: str,
    folder: str,
    tokenizer: str,
    max_length: int,
    long_documents: str,
    text_column: str,
    text_unit: str,
    format: str,
    validation: float,
    seed: int,
    tasks: int,
    workers: int,
    executor: Step,
    filters: list[Step],
    deduplicate: Step | None,
) -> Index | None:
    """Writes the store of the source's documents into a folder or URL; returns its index, None while SLURM works on it.

    Continues a store that was begun with the same inputs, and leaves a finished store unchanged.

    Raises:
        FileNotFoundError: there is no such source or tokenizer.
        ValueError: a setting or document that cannot be used, or a folder with a store of other inputs.
        ChildProcessError: tasks failed.
    """
    logger.remove()  # datatrove's messages are in the logs of its tasks
    if tasks < 1 or workers < 0:
        problem = f"--tasks {tasks} --workers {workers}: expected at least one task, and 0 workers or more"
        raise ValueError(problem)
    if not 0 <= validation < 1:
        raise ValueError(
            f"--validation {validation}: expected a share from 0 to below 1; a number of documents cannot be held out, "
            "as each task decides by a document's content alone"
        )
    cutting = check_chunking(max_length, long_documents)
    files = find_files(source, format != "auto")
    hf_tokenizer = load_tokenizer(tokenizer, needed=("pad",))
    attributes = {**cutting, "tokenizer": tokenizer_fingerprint(hf_tokenizer)}
    reading = (text_column, text_unit, format, validation, seed)
    plan = CorpusPlan(files, tasks, *reading, attributes, len(hf_tokenizer), filters, deduplicate)
    store = Folder(folder)
    before: list[PipelineStep] = [ReadFiles(plan), *make_filters(filters)]
    stages, drop = deduplication(plan, store, before)
    write = WriteShard(plan, store, hf_tokenizer.backend_tokenizer.to_str(), hf_tokenizer.all_special_ids)
    stages.append(Stage("shards", [*before, *drop, write], tasks))
    stages.append(Stage("index", [WriteIndex(plan, store)], 1))
    executors = make_executors(executor, stages, store, workers)
    plan.keep(store)
    if not store.exists(INDEX):
        with tempfile.TemporaryDirectory(prefix="tiryns-") as temporary:
            hf_tokenizer.save_pretrained(temporary)
            store.take(Path(temporary), "tokenizer")
    return read_index(store) if run(executors) else None


class WriteIndex(PipelineStep):
    """Makes the index of all shards from their records, without reading their tokens."""

    type, name = "WRITER", "tiryns index"

    def __init__(self, plan: CorpusPlan, store: Folder) -> None:
        super().__init__()
        self.plan, self.store = plan, store

    def run(self, data: object = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Writes the index; raises ValueError where no document is left to train on."""
        names = [f"shards/{task:05d}" for task in range(self.plan.tasks)]
        records = {name: json.loads(self.store.read(f"{name}/record.json")) for name in names}
        sets = {name: self._set(name, records) for name in (TRAIN, HELD_OUT)}
        if sets[TRAIN] is None:
            raise ValueError(f"{self.store}: no document is left to train on: filter less, or hold out fewer")
        index = {
            "format_version": FORMAT_VERSION, **self.plan.attributes, "files": len(self.plan.files),
            "tasks": self.plan.tasks, "sets": {name: content for name, content in sets.items() if content},
        }  # fmt: skip
        self.store.write(INDEX, json.dumps(index, indent=1).encode())
        yield from ()

    def _set(self, name: str, records: dict[str, Any]) -> Index | None:
        """Returns a set's entry in the index; None if no shard has a sequence of the set."""
        parts = {folder: record[name] for folder, record in records.items() if record.get(name)}
        if not parts:
            return None
        sums = ("documents", "num_sequences", "num_tokens", "num_bytes")
        digests = [digest for part in parts.values() for digest in part["digests"]]
        content = {
            "fingerprint": key_of({"attributes": self.plan.attributes, "files": digests}),
            **{key: sum(part[key] for part in parts.values()) for key in sums},
            "shards": [{"folder": f"{n}/{name}", "fingerprint": p["fingerprint"]} for n, p in parts.items()],
        }
        if name == HELD_OUT:
            counts = np.zeros(self.plan.vocab_size, np.int64)
            for part in parts.values():
                counts[: len(part["counts"])] += np.array(part["counts"], np.int64)
            content["unigram_entropy"] = entropy(counts)
            content["tokens_per_byte"] = int(counts.sum()) / content["num_bytes"]
        return content
