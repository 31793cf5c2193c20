"""How `tiryns predict` and `tiryns evaluate` read files, by flags or settings of data, and what `predict` writes.

`--label-column NAME` and `data.label_column=NAME` are the same setting.
"""

import os
import re
import shutil
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from omegaconf import OmegaConf

from tiryns.conf.values import Settings
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.run.command.tables import ENDINGS
from tiryns.runner.run.files import replaceable, replacing
from tiryns.runner.run.yaml_files import settings_in

if TYPE_CHECKING:
    from tiryns.runner.inference.kinds import Kept

READ_BY = {
    "text_column": "column of the text", "pair_column": "column of the second text of a pair",
    "context_column": "column of the context of a question", "label_column": "column of the label",
    "label_columns": "columns of one-hot labels, such as birds,streets",
    "tag_columns": "columns of the labels of words, such as upos,ner", "id_column": "column of the id",
    "delimiter": "separator of fields in csv files", "encoding": "encoding of the file, such as latin-1",
    "header": "names of the columns of a csv file without a line of them, such as text,label",
    "quoting": "whether double quotes enclose the fields of a csv file: true or false",
    "on_bad_row": "rows that cannot be used: error, or skip and count them (error)",
    "format": "csv, tsv, jsonl, json, parquet, txt, conll, ...; also of standard input",
}  # fmt: skip
"""Settings of data that may differ from those of training, each as a flag."""

LISTS = ("label_columns", "tag_columns", "header")

OWN = ("words", "predicted", "probability", "predicted_entities", "embedding")
"""Columns that a prediction adds to a table."""

_SPOOLED = "tiryns-stdin-"
_CHOICES = {"quoting": ("true", "false"), "on_bad_row": ("error", "skip")}
_METAVARS = {"format": "FORMAT", "label_columns": "NAME,...", "tag_columns": "NAME,..."}


def add_reading_arguments(parser: ArgumentParser) -> None:
    """Adds `--import`, and a flag for each setting of `READ_BY`."""
    about = "a module of yours that registers the model's task, or metrics"
    parser.add_argument("--import", dest="imports", action="append", default=[], metavar="MODULE", help=about)
    group = parser.add_argument_group(
        "how a file is read (as the training data, by its ending); as settings too, such as data.label_column=NAME"
    )
    for (name, about), flag in zip(READ_BY.items(), reading_flags(), strict=True):
        metavar = "NAME" if name.endswith("column") else _METAVARS.get(name)
        option = f"--{flag.replace('_', '-')}"
        group.add_argument(option, choices=_CHOICES.get(name), metavar=metavar, help=about)


def reading_flags() -> list[str]:
    """Returns the names of the flags, in the order of `READ_BY`: `input_format` for `format`, else the setting's name."""
    return ["input_format" if name == "format" else name for name in READ_BY]


def reading_settings(arguments: Namespace, words: Sequence[str]) -> tuple[Settings, list[str]]:
    """Returns the settings of data from flags and words, and the other words; ValueError if both give one setting."""
    overrides, settings = [word for word in words if is_setting(word)], Settings()
    for word in overrides:
        name, _, value = word.removeprefix("data.").partition("=")
        if name not in READ_BY or name in (*LISTS, "quoting") or value == "null":
            settings |= settings_in(OmegaConf.from_dotlist([f"{name}={value}"]))
        else:  # what a flag takes as text is text, which YAML would read otherwise
            is_quoted = len(value) > 1 and value[0] == value[-1] in ("'", '"')
            settings[name] = value[1:-1] if is_quoted else value
    for name, flag in zip(READ_BY, reading_flags(), strict=True):
        if (argument := getattr(arguments, flag)) is None:
            continue
        if name in settings:
            raise ValueError(f"--{flag.replace('_', '-')} and data.{name} are the same setting: give one")
        settings[name] = argument == "true" if name == "quoting" else argument
    for name in LISTS:
        if isinstance(columns := settings.get(name), str):
            settings[name] = names_of(columns)
    return settings, [word for word in words if word not in overrides]


def names_of(text: str) -> list[str]:
    """Returns the column names of a comma-separated text, which may be in brackets, as for `data.header`.

    Example:
        >>> names_of("text,label") == names_of("[text, label]") == ["text", "label"]
        True
    """
    inner = re.fullmatch(r"\s*\[([^\[\]]*)\]\s*", text)
    return [name.strip() for name in (inner[1] if inner else text).split(",")]


def is_setting(word: str, name: str = r"data\.\w+") -> bool:
    """Returns whether a word has the form `NAME=VALUE`, with a name of this pattern, and is not the name of a file."""
    return re.match(f"{name}=", word) is not None and not os.path.exists(word)


def row_of(
    values: Mapping[str, object], prediction: PredictionRow, conflicts: dict[str, None], kind: str = "jsonl"
) -> PredictionRow:
    """Returns the columns of a row and its prediction; adds to `conflicts` each column that the prediction changes.

    If `kind` is not `jsonl`, drops fields of the prediction that repeat the input. In parquet, token weights are a list.

    Example:
        >>> row_of({"text": "herons", "predicted": "stones"}, {"text": "herons", "predicted": "birds"}, lost := {})
        {'text': 'herons', 'predicted': 'birds'}
        >>> list(lost), row_of({"q": "where"}, {"id": "0", "text": "where", "predicted": "order"}, {}, "csv")
        (['predicted'], {'q': 'where', 'predicted': 'order'})
    """
    if kind != "jsonl":
        values = values or {"text": prediction.get("text", "")}
        prediction = {name: prediction[name] for name in OWN if name in prediction}
    if kind == "parquet" and isinstance(weights := prediction.get("embedding"), Mapping):  # not a column each
        entries = [{"token": token, "weight": weight} for token, weight in weights.items()]
        prediction = {**prediction, "embedding": entries}
    conflicts |= {name: None for name in prediction if name in values and values[name] != prediction[name]}
    return {**values, **prediction}


def figures_file(out: Path) -> Path:
    """Returns the path of the metrics file next to the file of predictions."""
    return out.with_suffix(".figures.json")


def format_of(out: Path | None) -> str | None:
    """Returns the format that the ending of a file names; None for any other ending, ValueError for a compressed file."""
    suffix = out.suffix.lower() if out else ""
    if suffix in (".gz", ".bz2", ".zst", ".lz4"):
        raise ValueError(f"--out {out}: predictions are not written compressed; leave out {suffix}")
    return {**ENDINGS, ".npy": "npy"}.get(suffix)


def line_of(row: PredictionRow) -> str:
    """Returns a prediction as a line of text to read."""
    if "embedding" in row:
        return line_of_vector(row["embedding"]) + "\n"
    if "scores" in row:
        pairs = zip(row["scores"], row["candidates"], strict=True)
        return "".join(f"{score:.4f}  {candidate}\n" for score, candidate in pairs)
    prediction, probability = row["predicted"], row.get("probability")
    if "words" in row:
        columns = prediction.values() if isinstance(prediction, dict) else [prediction]
        return " ".join(map("/".join, zip(row["words"], *columns, strict=True))) + "\n"
    if isinstance(prediction, list):
        of_masks = prediction and isinstance(prediction[0], list)
        lists = zip(prediction, probability, strict=True) if of_masks else [(prediction, probability)]  # type: ignore[arg-type]
        parts = (
            ", ".join(f"{label} {share:.3f}" for label, share in zip(*both, strict=True)) for both in lists
        )
        return ("; ".join(parts) or "none") + "\n"
    text = str(prediction) if prediction != "" else "(no answer)"
    return text + (f"  {probability:.3f}" if isinstance(probability, float) else "") + "\n"


def line_of_vector(vector: Any) -> str:
    """Returns the numbers of a vector, the weights of tokens, or the vectors of tokens as a line.

    Example:
        >>> line_of_vector([0.5, 2.0]), line_of_vector({"heron": 1.25}), line_of_vector([[0.5, 1.0], [2.0, 3.0]])
        ('0.5 2', 'heron 1.25', '0.5 1; 2 3')
    """
    if isinstance(vector, Mapping):
        return ", ".join(f"{token} {weight:.6g}" for token, weight in vector.items())
    if vector and isinstance(vector[0], list):
        return "; ".join(map(line_of_vector, vector))
    return " ".join(f"{number:.6g}" for number in vector)


def write_array(batches: Iterable["Kept"], out: Path | None) -> None:
    """Writes vectors as a float32 array [D, H] that `numpy.load` reads; ValueError unless each text has one vector."""
    import numpy as np

    if out is None:
        raise ValueError("an array needs a file: give --out vectors.npy")
    parts = []
    for batch in batches:
        vectors: list[Any] = [prediction["embedding"] for prediction in batch.predictions]
        if any(isinstance(vector, Mapping) or isinstance(vector[0], list) for vector in vectors):
            raise ValueError(
                "an array holds one vector for each text, but this model gives several, or weights of tokens: write jsonl"
            )
        parts += [np.asarray(vectors, dtype=np.float32)] if vectors else []
    with replaceable(out), replacing(out) as temporary, temporary.open("wb") as file:
        np.save(file, np.concatenate(parts))


def bar(batches: Iterable["Kept"], to_file: bool) -> Iterator["Kept"]:
    """Yields the batches; counts their rows in a bar on stderr if it is a terminal and the output goes elsewhere."""
    if not sys.stderr.isatty() or not (to_file or not sys.stdout.isatty()):
        yield from batches
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.completed:,.0f} rows"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("rows", total=None)
        for batch in batches:
            yield batch
            progress.advance(task, len(batch.rows))


def as_typed(text: str) -> str:
    """Returns a message without the temporary folder of `spool_file`, which the user has not typed."""
    return re.sub(rf"[^\s'(]*/{_SPOOLED}\w+/", "", text)


@contextmanager
def spool_file(stream: TextIO, file_format: str) -> Iterator[Path]:
    """Yields a temporary file with the content of a stream, for formats that are read twice."""
    with tempfile.TemporaryDirectory(prefix=_SPOOLED) as folder:
        path = Path(folder) / f"stdin.{file_format}"
        with path.open("wb") as file:
            shutil.copyfileobj(stream.buffer, file)
        try:
            yield path
        except ValueError as error:
            error.args = tuple(as_typed(str(part)) for part in error.args)
            raise
