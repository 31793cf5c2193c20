"""Predicts with a trained model: labels, labels of words, answers, ranks, vectors of texts, or tokens for masks.

  tiryns predict RUN "a text" [--second TEXT]             one text, or a pair, or a question and its context
  tiryns predict RUN reviews.csv --out predictions.csv    every row of a csv, jsonl, txt or other file
  tiryns predict RUN -                                    every line of standard input

RUN is a run folder or the folder of a Hugging Face model. `--out FILE` and `--format` write csv, jsonl or parquet, and
keep the columns. If a file has labels, metrics are shown too, and written beside the predictions (`--out p.jsonl`
makes `p.figures.json`). A language model fills in each [MASK], or writes `--length N` tokens; a causal one continues the
text, by up to `--max-new-tokens`. A vision-language model answers a question about `--image FILE`, or each of a file's
questions about images below `--images FOLDER`. A model of vectors writes them as lists, or with `--out vectors.npy` as
one array; `--prompt query` puts the prompt of queries before the texts.
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiryns.conf.values import count_of
from tiryns.runner.cli.models import reading
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.command.tables import write_rows
from tiryns.runner.run.files import named_path, writing
from tiryns.runner.run.lazy import many_imports

if TYPE_CHECKING:
    from tiryns.runner.data.read.bad_rows import BadRows
    from tiryns.runner.data.read.rows import Row
    from tiryns.runner.inference.kinds import Kept, PredictOptions
    from tiryns.runner.inference.predictor import Predictor

STDIN = "-"


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.usage = "tiryns predict RUN [TEXT|FILE|-] [FLAGS]"
    add = parser.add_argument
    add("run", metavar="RUN", help="run folder, or folder of a Hugging Face model")
    about = "a text, a file of examples, or - for texts on standard input, a line each"
    add("input", nargs="*", metavar="TEXT|FILE|-", help=about)
    add("--second", metavar="TEXT", help="the other text of a pair, or a question's context")
    add("--out", type=Path, metavar="FILE", help="file to write (the screen)")
    about = "csv, tsv, jsonl or parquet, or npy for vectors (by the ending of --out, else jsonl)"
    add("--format", choices=("csv", "tsv", "jsonl", "parquet", "npy"), help=about)
    add("--tokens", type=int, help="tokens of a micro-batch (those of the run, else 8192)")
    add("--no-figures", action="store_true", help="leave out the metrics of a file with labels")
    reading.add_reading_arguments(parser)
    seeing = parser.add_argument_group("questions about images")
    seeing.add_argument("--image", action="append", default=[], metavar="FILE", help="an image of the text")
    seeing.add_argument("--images", metavar="FOLDER", help="folder of a file's images (the file's own)")
    about = "the longest answer or continuation, in tokens (32)"
    seeing.add_argument("--max-new-tokens", type=int, default=32, help=about)
    embedding = parser.add_argument_group("vectors of texts")
    about = "the prompt before each text, such as query or passage (the model's default)"
    embedding.add_argument("--prompt", metavar="NAME", help=about)
    embedding.add_argument("--dimensions", type=int, metavar="N", help="first numbers to keep of each (all)")
    filling = parser.add_argument_group("filling in masks and continuing texts")
    filling.add_argument("--length", type=int, help="tokens of a text that is written without a prompt")
    about = "the K likeliest tokens of each mask with their probabilities, in the place of a text"
    filling.add_argument("--top-k", type=int, metavar="K", help=about)
    filling.add_argument("--steps", type=int, default=1000, help="steps from all masked to none (1000)")
    about = "random: MDLM's sampler (the default); confidence: the most likely tokens first"
    filling.add_argument("--order", default="random", help=about)
    about = "temperature of the sampling (1); 0 takes the most likely token"
    filling.add_argument("--temperature", type=float, default=1.0, help=about)
    filling.add_argument("--samples", type=int, default=1, help="texts to print, one per line (1)")
    filling.add_argument("--seed", type=int, default=0, help="seed of the sampling (0)")


def main(arguments: Namespace) -> None:
    """Prints predictions, or writes them to a file, and shows their metrics where there are labels."""
    settings, inputs = reading.reading_settings(arguments, arguments.input)
    if len(inputs) > 1:
        more = " ".join(inputs[1:])
        raise ValueError(f"unrecognized arguments: {more}: expected one text or file, and data.NAME=VALUE")
    arguments.input = inputs[0] if inputs else None
    arguments.on_bad_row = settings.pop("on_bad_row", "error")
    arguments.input_format = settings.pop("format", None)
    with many_imports():
        from tiryns.runner.data.read.bad_rows import BadRows
        from tiryns.runner.inference.kinds import PredictOptions
        from tiryns.runner.inference.predictor import Predictor
        from tiryns.runner.tasks import import_modules

    is_file = _names_file(arguments.input, arguments.length, arguments.out)
    import_modules(arguments.imports, "--import")
    predictor = Predictor(arguments.run, settings)
    _check(predictor.task, is_file, arguments)
    bad = BadRows(arguments.on_bad_row == "skip", "--on-bad-row skip")
    beside = Path(arguments.input).parent if is_file and predictor.task == "vision_language" else None
    arguments.images = arguments.images or beside
    options = PredictOptions(**{one.name: getattr(arguments, one.name) for one in fields(PredictOptions)})
    batches = reading.bar(_batches(predictor, is_file, options, bad, arguments), arguments.out is not None)
    by_rows = is_file or arguments.input == STDIN
    output_format = arguments.format or reading.format_of(arguments.out) or ("jsonl" if by_rows else "text")
    figures, conflicts, count = dict[str, float](), dict[str, None](), 0

    def rows(kind: str) -> Iterator[dict[str, object]]:
        nonlocal count
        for batch in batches:
            for row, prediction in zip(batch.rows, batch.predictions, strict=True):
                yield reading.row_of(row.values if by_rows else {}, prediction, conflicts, kind)
            figures.update(batch.figures)
            count += len(batch.rows)

    if arguments.json:
        print_json({"predictions": [*rows("jsonl")], "figures": figures}, arguments.out)
    elif output_format == "npy":
        reading.write_array(batches, arguments.out)
    else:
        if output_format == "text":
            with writing(arguments.out) as out:
                out.writelines(map(reading.line_of, rows("jsonl")))
        else:
            write_rows(rows(output_format), arguments.out, output_format, predictor.kind.separator)
        for name, value in figures.items():
            print(f"{name} {value:.6g}", file=sys.stderr)
    if conflicts:
        print(f"columns of the input that the predictions replace: {', '.join(conflicts)}", file=sys.stderr)
    if bad.places:
        print(reading.as_typed(bad.describe()), file=sys.stderr)
    if arguments.out is None or arguments.json or output_format == "npy":
        return
    print(f"predictions for {count_of(count, 'row')}: {arguments.out}")
    if figures:
        with writing(reading.figures_file(arguments.out)) as file:
            file.write(json.dumps(figures, indent=1) + "\n")


def _names_file(text: str | None, length: int | None, out: Path | None) -> bool:
    """Returns whether the input names a file or folder; ValueError or OSError if it is missing, or `out` replaces it."""
    from tiryns.runner.data.read.formats import DOCUMENTS, ROWS, ending_format

    if text is None and length is None:
        raise ValueError('give a text or a file, or --length N: tiryns predict RUN "a [MASK] text"')
    if text is None:
        return False
    if text and os.path.exists(place := named_path(text)):  # `Path.exists` raises OSError for a long text
        if place.is_fifo():  # tables are read twice
            raise ValueError(f"{text} is a pipe: write COMMAND | tiryns predict RUN -")
        for path in (out, reading.figures_file(out)) if out else ():
            if Path(text).resolve() in (path.resolve(), *path.resolve().parents):
                raise ValueError(f"--out {out} would write over the input {text}: name another file")
        return True
    in_folder = os.path.isdir(os.path.dirname(text))
    if ending_format(Path(text)) in {*DOCUMENTS, *ROWS} and (" " not in text or in_folder):
        raise FileNotFoundError(f"there is no file {text!r}")
    return False


def _batches(
    predictor: "Predictor", is_file: bool, options: "PredictOptions", bad: "BadRows", arguments: Namespace
) -> Iterator["Kept"]:
    input_format = arguments.input_format
    if is_file or (arguments.input == STDIN and input_format not in (None, "txt")):
        source = nullcontext(arguments.input) if is_file else reading.spool_file(sys.stdin, input_format)
        with source as path:
            rows = predictor.rows_of_file(path, options, bad, input_format)
            rows = rows._replace(rows=_repeat(rows.rows, arguments.samples))
            yield from predictor.of_file(rows, options, figures=not arguments.no_figures)
        return
    from tiryns.runner.data.read.rows import Row, Rows
    from tiryns.runner.inference.language.infill import MASK

    text = str(arguments.input) if arguments.length is None else MASK * arguments.length
    texts = bad.nonempty_lines(sys.stdin) if arguments.input == STDIN else iter([("the text", text)])
    rows_of_texts = (Row(where, predictor.kind.values(text, options)) for where, text in texts)
    rows = Rows(_repeat(rows_of_texts, arguments.samples), "standard input", bad=bad)
    yield from predictor.of_file(rows, options, figures=False)


def _check(task: str, is_file: bool, arguments: Namespace) -> None:
    """Raises ValueError for arguments that a model of the task does not read."""
    run = repr(arguments.run)
    if task == "vision_language":
        if arguments.input is None:
            raise ValueError("this model answers questions: give a text with --image FILE, or a file of them")
        if arguments.max_new_tokens < 1:
            raise ValueError("--max-new-tokens must be at least 1")
        if is_file and arguments.image:
            raise ValueError("--image is for one text; the images of a file's rows lie below --images FOLDER")
    elif arguments.image or arguments.images:
        raise ValueError(f"the model in {run} reads no images: leave out --image and --images")
    elif task != "infill" and arguments.length is not None:
        kind = "continues texts: give it --max-new-tokens" if task == "generation" else "has another task"
        raise ValueError(f"--length is for language models that fill in masks; the model in {run} {kind}")
    elif task == "infill" and (arguments.input is None) == (arguments.length is None):
        raise ValueError('give a text with [MASK] in it, or --length N: tiryns predict RUN "a [MASK] text"')
    if task != "vectors":
        for flag in ("prompt", "dimensions"):
            if getattr(arguments, flag) is not None:
                raise ValueError(f"--{flag} is for models of vectors; the model in {run} is of another kind")
        if "npy" in (arguments.format, reading.format_of(arguments.out)):
            raise ValueError(f"an array holds vectors, and the model in {run} makes none: write csv or jsonl")
    for flag, unset in (("samples", 1), ("top_k", None)):
        if (value := getattr(arguments, flag)) != unset:
            name = f"--{flag.replace('_', '-')}"
            if task not in ("infill", "generation"):
                raise ValueError(f"{name} is for language models; the model in {run} has another task")
            if value < 1:
                raise ValueError(f"{name} must be at least 1")


def _repeat(rows: Iterable["Row"], times: int) -> Any:
    return (row for row in rows for _ in range(times))
