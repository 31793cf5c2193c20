"""A file form, and what the program makes of it: rows and labels, or one line that names what to do."""

import io
import json
import zipfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from tiryns import compose
from tiryns.runner.loop.assembly import make_data

TEXTS = [f"heron number {i} stands here" for i in range(6)]
"""Texts of the tables."""


class Form(NamedTuple):
    """A file as a tool writes it, the settings that a user gives, and what is expected."""

    name: str
    option: str
    """Option of group `data`."""
    file: str
    content: str | bytes | Callable[[Path], None]
    """Its text, its bytes, or what writes it."""
    words: tuple[str, ...] = ()
    rows: int = 0
    first: dict[str, Any] = {}  # noqa: RUF012 - never changed
    """Fields of the first example."""
    labels: list[str] | None = None
    kind: str | None = None
    """The kind of problem, or the scheme of tags, by which the metric is chosen."""
    said: str = ""
    """A regular expression that the log or the summary matches."""
    error: str = ""
    """A regular expression that the one line of an error matches."""


def jsonl(rows: list[Any]) -> str:
    """Rows as lines of JSON."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def table(labels: list[Any], sep: str = ",", names: str = "text,label", end: str = "\n") -> str:
    """A table of the texts with labels, of which the first follow each other again and again."""
    lines = [sep.join((text, str(labels[i % len(labels)]))) for i, text in enumerate(TEXTS)]
    return end.join([names.replace(",", sep), *lines, ""])


def texts(labels: list[Any], **more: Any) -> list[dict[str, Any]]:
    """The same as rows."""
    return [{"text": text, "label": labels[i % len(labels)], **more} for i, text in enumerate(TEXTS)]


def archive(name: str, text: str) -> bytes:
    """A zip archive of one file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as one:
        one.writestr(name, text)
    return packed.getvalue()


@lru_cache
def composed(option: str, words: tuple[str, ...]) -> Any:
    """The config of a task with these settings."""
    experiment = "contrastive" if option == "pairs" else option
    given = [f"experiment={experiment}", f"data={option}", "data.train=?", "data.vocab_size=300", *words]
    return OmegaConf.to_container(compose(*given, "data.validation_documents=0"), resolve=False)


def read(form: Form, folder: Path) -> Any:
    """The prepared data module of a form that is written into a folder."""
    path = folder / form.file
    path.parent.mkdir(parents=True, exist_ok=True)
    if callable(form.content):
        form.content(path)
    else:
        path.write_bytes(form.content if isinstance(form.content, bytes) else form.content.encode())
    config = OmegaConf.create(composed(form.option, form.words))
    config.data.train = str(path)
    data = make_data(config)
    data.prepare_data()
    return data


def shown(example: Any) -> dict[str, Any]:
    """The fields of an example, with its label alone."""
    fields = example._asdict()
    return fields | ({"label": fields["label"].label} if hasattr(fields.get("label"), "label") else {})
