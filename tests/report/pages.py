"""Run folders to draw, and pages to look into."""

import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """A page as elements with their text; fails on what is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[int] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {[self.elements[i][0] for i in self._open]}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}, []))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}, []))

    def handle_endtag(self, tag: str) -> None:
        opened = self.elements[self._open.pop()][0]
        assert opened == tag, f"<{opened}> is closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        for i in self._open:
            self.elements[i][2].append(data)

    def texts(self, tag: str, kind: str = "") -> list[str]:
        return [
            "".join(t).strip()
            for name, marks, t in self.elements
            if name == tag and kind in marks.get("class", "")
        ]

    @property
    def text(self) -> str:
        return self.texts("body")[0]

    @property
    def charts(self) -> dict[str, dict[str, Any]]:
        data = [
            json.loads("".join(t)) for n, marks, t in self.elements if marks.get("type") == "application/json"
        ]
        return dict(zip(self.texts("h3"), data, strict=True))


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
        "state": "done",
        "step": steps,
        "max_steps": steps,
        "started": "2026-11-03T12:30:11",
        "seconds": 309.0,
    }
    (folder / "status.json").write_text(json.dumps({**noted, "results": results, **status}))
    return folder


def read(path: Path) -> Page:
    return Page(path.read_text())


def sweep(folder: Path) -> list[Path]:
    return [
        make_run(folder / f"{i}", seed=seed, loss=loss)
        for i, (loss, seed) in enumerate([(3.0, 1), (3.0, 2), (2.0, 1), (2.0, 2), (2.5, 1)])
    ]
