"""What `tiryns predict` writes: rows, lines of text or an array; and how far it is, in a terminal."""

import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.run.command.tables import ENDINGS
from tiryns.runner.run.files import replaceable, replacing
from tiryns.runner.run.model_folder import NoModel

if TYPE_CHECKING:
    from tiryns.runner.inference.kinds import Kept

OWN = ("words", "predicted", "probability", "predicted_entities", "embedding")
"""What a prediction adds to the columns of a table."""


def row_of(
    values: Mapping[str, object], prediction: PredictionRow, replaced: dict[str, None], kind: str = "jsonl"
) -> PredictionRow:
    """The columns of a row with those of its prediction, which are added to `replaced` where the row had other values.

    Tables, of any `kind` but jsonl, leave out what the input says itself; parquet lists the weights of tokens.

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
        listed = [{"token": token, "weight": weight} for token, weight in weights.items()]
        prediction = {**prediction, "embedding": listed}
    replaced |= {name: None for name in prediction if name in values and values[name] != prediction[name]}
    return {**values, **prediction}


def tell_replaced(replaced: Iterable[str]) -> None:
    """Says on standard error which columns of the input are not in the output."""
    if names := ", ".join(replaced):
        print(f"columns of the input that the predictions replace: {names}", file=sys.stderr)


def check_apart(out: Path | None, given: str) -> None:
    """Raises ValueError where what is written would take the place of the input, or of a part of it."""
    if out is None:
        return
    source = Path(given).resolve()
    for path in (out, figures_file(out)):
        if source == path.resolve() or source in path.resolve().parents:
            raise ValueError(f"--out {out} would write over the input {given}: name another file")


def figures_file(out: Path) -> Path:
    """The file of the metrics beside that of the predictions."""
    return out.with_suffix(".figures.json")


def format_of(out: Path | None) -> str | None:
    """The format that the ending of a file names; None where it names none of these."""
    return None if out is None else {**ENDINGS, ".npy": "npy"}.get(out.suffix.lower())


def line_of(row: PredictionRow) -> str:
    """A prediction as a line for a reader."""
    if "embedding" in row:
        return line_of_vector(row["embedding"]) + "\n"
    if "scores" in row:
        ranked = zip(row["scores"], row["candidates"], strict=True)
        return "".join(f"{score:.4f}  {candidate}\n" for score, candidate in ranked)
    predicted, probability = row["predicted"], row.get("probability")
    if "words" in row:
        columns = predicted.values() if isinstance(predicted, dict) else [predicted]
        return " ".join(map("/".join, zip(row["words"], *columns, strict=True))) + "\n"
    if isinstance(predicted, list):
        of_masks = predicted and isinstance(predicted[0], list)
        lists = zip(predicted, probability, strict=True) if of_masks else [(predicted, probability)]  # type: ignore[arg-type]
        told = (
            ", ".join(f"{label} {share:.3f}" for label, share in zip(*both, strict=True)) for both in lists
        )
        return ("; ".join(told) or "none") + "\n"
    shown = str(predicted) if predicted != "" else "(no answer)"
    return shown + (f"  {probability:.3f}" if isinstance(probability, float) else "") + "\n"


def line_of_vector(vector: Any) -> str:
    """The numbers of a vector, the weights of tokens, or the vectors of tokens as a line.

    Example:
        >>> line_of_vector([0.5, 2.0]), line_of_vector({"heron": 1.25}), line_of_vector([[0.5, 1.0], [2.0, 3.0]])
        ('0.5 2', 'heron 1.25', '0.5 1; 2 3')
    """
    if isinstance(vector, Mapping):
        return ", ".join(f"{token} {weight:.6g}" for token, weight in vector.items())
    if vector and isinstance(vector[0], list):
        return "; ".join(map(line_of_vector, vector))
    return " ".join(f"{number:.6g}" for number in vector)


def _numbers(vector: Any) -> list[float]:
    if isinstance(vector, Mapping) or isinstance(vector[0], list):
        raise ValueError("an array holds one vector for each text, and this model makes others: write jsonl")
    return list(vector)


def write_array(batches: Iterable["Kept"], out: Path | None) -> None:
    """Writes vectors as a float32 array [D, H] that `numpy.load` reads.

    Raises ValueError without a file, and for texts that have something else than one vector each.
    """
    import numpy as np

    if out is None:
        raise ValueError("an array needs a file: give --out vectors.npy")
    parts = [[_numbers(prediction["embedding"]) for prediction in kept.predictions] for kept in batches]
    vectors = np.concatenate([np.asarray(part, dtype=np.float32) for part in parts if part])
    with replaceable(out), replacing(out) as temporary, temporary.open("wb") as file:
        np.save(file, vectors)


def bar(batches: Iterable["Kept"], to_file: bool) -> Iterator["Kept"]:
    """The batches, with a bar on standard error that counts their rows, if that is a terminal with nothing else on it."""
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


@contextmanager
def spooled(stream: TextIO, file_format: str) -> Iterator[Path]:
    """A file with all that a stream holds, for formats that are read twice; it is removed after the block."""
    with tempfile.TemporaryDirectory(prefix=_SPOOLED) as folder:
        path = Path(folder) / f"stdin.{file_format}"
        with path.open("wb") as file:
            shutil.copyfileobj(stream.buffer, file)
        yield path


def as_typed(text: str) -> str:
    """A message without the folder of `spooled`: its file stands for standard input."""
    return re.sub(rf"[^\s'(]*/{_SPOOLED}\w+/", "", text)


def names_of(given: str) -> list[str]:
    """The names of columns, with commas between them, also in brackets as those of `data.header`.

    Example:
        >>> names_of("text,label") == names_of("[text, label]") == ["text", "label"]
        True
    """
    inner = re.fullmatch(r"\s*\[([^\[\]]*)\]\s*", given)
    return [name.strip() for name in (inner[1] if inner else given).split(",")]


@contextmanager
def typed_as_flags(names: Iterable[str]) -> Iterator[None]:
    """Errors that name settings of data name the flags of the command instead."""
    try:
        yield
    except NoModel:  # it quotes the error of the run, whose settings are those of its config
        raise
    except ValueError as error:
        told = re.sub(
            rf"'?\bdata\.({'|'.join(names)})\b(=?)",
            lambda found: (
                f"--{'input-' * (found[1] == 'format')}{found[1].replace('_', '-')}{found[2] and ' '}"
            ),
            _HEADER.sub(lambda found: f"data.header={shlex.quote(found[1])}", as_typed(str(error))),
        )
        if told == str(error):
            raise
        raise ValueError(told) from error


_SPOOLED = "tiryns-stdin-"

_HEADER = re.compile(r"\bdata\.header=\[([^\[\]]*)\]")
