"""Where the CPU time of tokenising goes: to the processes that share the work, or to the one that writes the store.

The same text of Python's documentation as one file, read, divided and tokenised by two processes: in pieces that they
read, and as a source that cannot be cut, whose documents the first process reads and hands out. What the first process
needs for a MB bounds the speed with any number of others.
"""

import json
import logging
import os
import resource
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tiryns.runner.data.demo.stdlib_text import StdlibText
from tiryns.runner.data.read.documents import Source, open_source
from tiryns.runner.data.text import pool
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.holdout import TRAIN, divide
from tiryns.runner.data.text.tokenise import tokenise
from tiryns.runner.data.text.tokenizer import train_tokenizer

ROUNDS, COPIES, MAX_LENGTH = 3, 12, 128


class Uncut:
    """A source whose documents one process reads."""

    tokenized = False

    def __init__(self, source: Source) -> None:
        self.source = source
        self.documents, self.fingerprint, self.describe = (
            source.documents,
            source.fingerprint,
            source.describe,
        )


def write_lines(path: Path, documents: list[str]) -> None:
    """Copies of documents with blank lines between them."""
    with open(path, "w") as file:
        for text in copies(documents, COPIES):
            file.write(json.dumps({"text": text}) + "\n" if path.suffix == ".jsonl" else text + "\n\n")


def copies(documents: list[str], number: int) -> Iterator[str]:
    """The documents several times; from the second on every 20th word is a new one, as in growing natural text."""
    for copy in range(number):
        for text in documents:
            words = text.split(" ")
            if copy:
                words[7::20] = [f"{word}{copy}" for word in words[7::20]]
            yield " ".join(words)


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, float]:
    """CPU seconds of this process and of the ones that it started and has ended, system time included."""
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    work()
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, others = (
        b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True)
    )
    return own, others


def measure(folder: Path) -> list[tuple[str, float, float, float]]:
    """Format and way, MB, CPU seconds of the first process and of the workers: medians."""
    documents = list(StdlibText().documents())
    tokenizer = train_tokenizer(documents, "wordpiece", 8192, lowercase=True)
    rows, number = [], 0
    for name in ("paragraphs.txt", "records.jsonl"):
        write_lines(folder / name, documents)
        opened = open_source(folder / name, "text", "train", "paragraph")
        ways: dict[str, Source] = {"documents handed out": Uncut(opened), "pieces": opened}
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, source in ways.items():
                number += 1

                def work(source: Source = source, number: int = number) -> None:
                    part = divide(source, {}, 0, seed=0)[TRAIN]
                    chunker = Chunker(tokenizer.backend_tokenizer, MAX_LENGTH, "sentences")
                    tokenise(part, chunker, len(tokenizer), folder / f"store{number}", {})

                found[way].append(cpu_seconds(work))
        size = (folder / name).stat().st_size / 1e6
        for way, pairs in found.items():
            own, others = (statistics.median(values) for values in zip(*pairs, strict=True))
            rows.append((f"{name.partition('.')[2]}, {way}", size, own, others))
    return rows


def main() -> None:
    """Prints the table."""
    logging.getLogger("tiryns").setLevel(logging.WARNING)
    pool.MUCH_TEXT = 0
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder))
    cores = len(os.sched_getaffinity(0))
    print(f"{rows[0][1]:.0f} MB of text by {cores} worker processes; CPU seconds, medians of {ROUNDS}\n")
    print(
        "| | first process, s | workers, s | share of the first | most, MB/s | 8 workers, MB/s |\n"
        "|---|---|---|---|---|---|"
    )
    for name, size, own, others in rows:
        most, worker = size / own, size / others
        print(
            f"| {name} | {own:.2f} | {others:.2f} | {own / (own + others):.3f} | {most:.0f} "
            f"| {min(most, 8 * worker):.0f} |"
        )
