"""Run folders to draw, and pages to look into."""

import json
import math
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from tiryns.runner.report.comparison import pages
from tiryns.runner.report.comparison.settings import Comparison
from tiryns.runner.run.folder import load_run


class Shell(HTMLParser):
    """The elements of a file as a browser without scripts reads them, by tag with marks and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}, []))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", {}, []))

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.elements[-1][2].append(data)

    def texts(self, tag: str) -> list[str]:
        return ["".join(texts).strip() for name, _, texts in self.elements if name == tag]


class Page:
    """The facts of a page, which its script draws: all parts one after the other, however deep they lie."""

    def __init__(self, path: Path) -> None:
        self.shell = Shell(path.read_text())
        self.facts = json.loads(
            next("".join(t) for _, marks, t in self.shell.elements if marks.get("id") == "facts")
        )
        self.parts = list(_parts(self.facts["parts"]))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [part for part in self.parts if part["is"] == kind]

    def texts(self, kind: str) -> list[str]:
        """The texts of parts of a kind: of notes, problems, labels, commands, or the titles of sections and details."""
        return [part.get("text", part.get("title", "")) for part in self.of(kind)]

    @property
    def text(self) -> str:
        """Every text on the page, each in a line."""
        return "\n".join(_texts(self.facts))

    @property
    def charts(self) -> dict[str, dict[str, Any]]:
        return {chart["title"]: chart for part in self.of("charts") for chart in part["charts"]}

    @property
    def tables(self) -> list["Table"]:
        return [Table(part) for part in self.of("table")]

    def table(self, head: str) -> "Table":
        """The only table with this head of a column."""
        (found,) = [table for table in self.tables if head in table.heads]
        return found

    @property
    def heads(self) -> list[str]:
        return [head for table in self.tables for head in table.heads]

    @property
    def facts_shown(self) -> dict[str, str]:
        return {name: value for part in self.of("facts") for name, value in part["facts"].items()}

    @property
    def tiles(self) -> list[list[str]]:
        return [tile for part in self.of("tiles") for tile in part["tiles"]]


class Table:
    """A table of a page: heads, rows of cells (of a cell with marks its text), and the marks of the rows."""

    def __init__(self, part: dict[str, Any]) -> None:
        self.part, self.heads, self.marks = part, part["heads"], part["marks"]
        self.rows = [[c["text"] if isinstance(c, dict) else c for c in row] for row in part["rows"]]

    def column(self, head: str) -> list[Any]:
        return [row[self.heads.index(head)] for row in self.rows]

    @property
    def best(self) -> list[int]:
        return [i for i, marks in enumerate(self.marks) if marks.get("class") == "best"]

    @property
    def links(self) -> list[str]:
        return [c["href"] for row in self.part["rows"] for c in row if isinstance(c, dict) and "href" in c]


def _parts(parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for part in parts:
        yield part
        yield from _parts(part.get("parts", []))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from (name, *_texts(each))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def make_run(folder: Path, steps: int = 40, seed: int = 0, loss: float = 4.0, **status: Any) -> Path:
    """A run folder as the main job leaves it."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    rows = [
        "step,time,train/loss,optim/lr/decay,optim/lr/no_decay,optim/grad_norm,perf/tokens_per_second,val/books/loss"
    ]
    for step in range(1, steps + 1):
        value = loss + 5 * math.exp(-step / steps * 6) + random.normal(0, 0.1)
        rows.append(f"{step},{1e9 + step},{value},1e-3,1e-3,{abs(random.normal())},{15000 + step},")
        if step % (steps // 4) == 0:
            rows.append(f"{step},{1e9 + step},,,,,,{value + 0.1}")
    (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
    overrides = [f"seed={seed}", f"optimizer.lr={loss}"]
    (folder / "overrides.json").write_text(json.dumps(overrides))
    (folder / "command.txt").write_text(f"tiryns {' '.join(overrides)}\n")
    (folder / "config.yaml").write_text(f"seed: {seed}\noptimizer:\n  lr: {loss}\n")
    (folder / "environment.json").write_text(json.dumps({"python": "3.11.2", "gpus": [], "git_dirty": False}))
    results = {"val/books/loss": value, "val/books/unigram_entropy": 6.25, "uniform_entropy": 9.01}
    results |= {"objective": value - 0.01, "best_step": float(steps)}
    noted = {
        "state": "done", "step": steps, "max_steps": steps, "started": "2026-11-03T12:30:11",
        "seconds": 309.0,
    }  # fmt: skip
    (folder / "status.json").write_text(json.dumps({**noted, "results": results, **status}))
    return folder


def write_comparison(folder: Path, runs: list[Path], name: str = "comparison.html") -> Path:
    """Writes the page of these runs, as `tiryns report` does."""
    return pages.write_comparison(folder, Comparison([load_run(run) for run in runs]), name)


def read(path: Path) -> Page:
    return Page(path)


def sweep(folder: Path) -> list[Path]:
    return [
        make_run(folder / f"{i}", seed=seed, loss=loss)
        for i, (loss, seed) in enumerate([(3.0, 1), (3.0, 2), (2.0, 1), (2.0, 2), (2.5, 1)])
    ]


def evaluated_run(folder: Path) -> Path:
    """A run with an evaluation of 25 classes, 80 predictions and samples."""
    run = make_run(folder)
    labels = [f"a_class_of_some_length_{i}" for i in range(25)]
    figures = {"precision": 0.5, "recall": 0.25, "f1": 0.33, "support": 40}
    found = {
        "examples": 80, "metrics": {"accuracy": 0.75}, "labels": labels,
        "confusion": [[30 if i == j else (i * j) % 3 for j in range(25)] for i in range(25)],
        "per_class": [{"label": label, **figures} for label in labels],
    }  # fmt: skip
    (run / "evaluation.json").write_text(json.dumps({"task": "x", "step": 1, "sets": {"val/held": found}}))
    rows = [
        {"set": "val/held", "id": i, "text": f"example {i} " + "some words " * 30, "gold": labels[i % 25],
         "predicted": labels[(i + i % 2) % 25], "probability": i / 80}
        for i in range(80)
    ]  # fmt: skip
    (run / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    guess = {"true": "bridge", "right": False, "guesses": [["river", 0.5], ["bridge", 0.25]]}
    (run / "samples.json").write_text(json.dumps({"books": [["the old ", guess, " runs on" * 40]]}))
    return run


EVIL = "</script><script>alert(1)</script><object x=\"'&<img src=x onerror=alert(2)>"


def evil_run(folder: Path) -> Path:
    """A run in which every text would be markup."""
    run = make_run(folder, error=EVIL, state=EVIL, started=EVIL, results={EVIL: 1.0, f"val/{EVIL}/loss": 2.0})
    quoted = EVIL.replace('"', '""')
    (run / "metrics.csv").write_text(f'step,time,"val/{quoted}/loss","{quoted}"\n1,0,2,3\n2,0,1,3\n')
    (run / "environment.json").write_text(json.dumps({EVIL: EVIL, "gpus": [EVIL]}))
    (run / "overrides.json").write_text(json.dumps([f"seed={EVIL}", f"{EVIL}=2"]))
    (run / "command.txt").write_text(EVIL)
    (run / "config.yaml").write_text(f"seed: {json.dumps(EVIL)}\n")
    return run
