"""What a trained model says: labels, labels of words, answers, or tokens in the place of masks.

`iolaus predict RUN "a text"`, or `RUN FILE` for every example of a file, or `RUN -` for every line of standard
input. RUN is a run folder or the folder of a Hugging Face model; its task decides. Where a file has labels, the figures
of the run's test are shown as well, and written beside the predictions (`--out p.jsonl` makes `p.figures.json`). A pair
or a question takes `--second`, the other text or the context. A language model, trained by masked modelling or diffusion,
fills in each [MASK], or writes `--length N` tokens from nothing. A vision-language model answers a question about
`--image FILE`, or each of a file's about images below `--images FOLDER`.
"""

import contextlib
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from iolaus.runner.run.files import replacing

STDIN = "-"
"""What stands for standard input."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the words of the command."""
    parser.add_argument("run", metavar="RUN", help="run folder, or folder of a Hugging Face model")
    about = "a text, a file of examples, or - for texts on standard input, a line each"
    parser.add_argument("input", nargs="?", metavar="TEXT|FILE|-", help=about)
    parser.add_argument("--second", metavar="TEXT", help="the other text of a pair, or a question's context")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write (the screen)")
    parser.add_argument("--tokens", type=int, default=8192, help="tokens computed on at once (8192)")
    about = "a module of yours that registers the model's task, or metrics"
    parser.add_argument("--import", dest="imports", action="append", default=[], metavar="MODULE", help=about)
    seeing = parser.add_argument_group("questions about images")
    seeing.add_argument(
        "--image", action="append", default=[], metavar="FILE", help="one shown with the text"
    )
    seeing.add_argument("--images", metavar="FOLDER", help="where a file's paths start from (its own folder)")
    seeing.add_argument("--max-new-tokens", type=int, default=32, help="the longest answer, in tokens (32)")
    filling = parser.add_argument_group("filling in masks")
    filling.add_argument("--length", type=int, help="tokens of a text written from nothing")
    filling.add_argument("--steps", type=int, default=1000, help="steps from all masked to none (1000)")
    filling.add_argument(
        "--order", default="random", help="random: MDLM's sampler; confidence: the surest first"
    )
    filling.add_argument(
        "--temperature", type=float, default=1.0, help="below 1 plays safe, 0 takes the likeliest"
    )
    filling.add_argument("--samples", type=int, default=1, help="texts to print, one per line")
    filling.add_argument("--seed", type=int, default=0, help="the result follows from it")


def main(arguments: Namespace) -> None:
    """Prints predictions, or writes them to a file, and shows their figures where there are labels."""
    rows, figures = _rows(arguments)
    with _output(arguments.out) as out:
        for row in rows:
            out.write(_line(row, as_json=arguments.input == STDIN or _is_file(arguments)))
    _tell(figures, arguments.out)


def _tell(figures: dict[str, float], out: Path | None) -> None:
    """Shows figures, and writes them in full beside the predictions."""
    for name, value in figures.items():
        print(f"{name} {value:.6g}", file=sys.stderr)
    if figures and out is not None:
        with _output(out.with_suffix(".figures.json")) as file:
            file.write(json.dumps(figures, indent=1) + "\n")


def _rows(arguments: Namespace) -> tuple[Iterator[dict[str, Any]], dict[str, float]]:
    """Predictions, as the model's task makes them, and their figures, where a file has labels."""
    from iolaus.runner.inference.answering import sees_images
    from iolaus.runner.inference.infill import load, open_model
    from iolaus.runner.inference.labelled import load_predictor, predict, rows_of_file, rows_of_texts, task_of
    from iolaus.runner.tasks import import_modules

    if arguments.input is None and arguments.length is None:
        raise ValueError('give a text or a file, or --length N: iolaus predict RUN "a [MASK] text"')
    if arguments.input is not None and not _is_file(arguments) and _looks_like_file(arguments.input):
        raise FileNotFoundError(f"there is no file {arguments.input!r}")
    import_modules(arguments.imports, "--import")
    config, tokenizer = open_model(arguments.run)
    if sees_images(config):
        return _answered(arguments), {}
    if arguments.image or arguments.images:
        raise ValueError(f"the model in {arguments.run!r} reads no images: leave out --image and --images")
    task = task_of(arguments.run, config.architectures or [])
    if task is None:
        return _filled(*load(arguments.run), arguments), {}
    if arguments.length is not None:
        raise ValueError(f"--length is for language models; the model in {arguments.run!r} has a task")
    predictor = load_predictor(arguments.run, task, config, tokenizer)
    if _is_file(arguments):
        rows = rows_of_file(predictor, arguments.input)
    else:
        rows = rows_of_texts(predictor, _given(arguments), arguments.second)
    return predict(predictor, rows, arguments.tokens)


def _answered(arguments: Namespace) -> Iterator[dict[str, Any]]:
    from iolaus.runner.inference.answering import (
        ImageFiles,
        answer,
        folder_of_images,
        load_answerer,
        question_of_text,
        questions_of_file,
    )

    if arguments.input is None:
        raise ValueError(
            "this model answers questions: give a text with --image FILE, or a file of questions"
        )
    if arguments.max_new_tokens < 1:
        raise ValueError("--max-new-tokens must be at least 1")
    is_file = _is_file(arguments)
    if is_file and arguments.image:
        raise ValueError("--image is for one text; the images of a file's rows lie below --images FOLDER")
    answerer = load_answerer(arguments.run)
    if is_file:
        questions = questions_of_file(answerer, arguments.input)
        images: Any = folder_of_images(arguments.images, arguments.input)
    else:
        texts = _given(arguments)
        questions, images = [question_of_text(answerer, t, arguments.image) for t in texts], ImageFiles()
    return answer(answerer, questions, images, arguments.max_new_tokens)


def _filled(model: Any, tokenizer: Any, arguments: Namespace) -> Iterator[dict[str, Any]]:
    from iolaus.runner.inference.infill import MASK, fill

    if (arguments.input is None) == (arguments.length is None):
        raise ValueError('give a text with [MASK] in it, or --length N: iolaus predict RUN "a [MASK] text"')
    if _is_file(arguments):
        texts = _texts(Path(arguments.input))
    else:
        texts = _given(arguments) if arguments.length is None else [" ".join([MASK] * arguments.length)]
    wanted = [text for text in texts for _ in range(arguments.samples)]
    settings = (arguments.steps, arguments.temperature, arguments.order, arguments.seed)
    for text, filled in zip(wanted, fill(model, tokenizer, wanted, *settings), strict=True):
        yield {"text": text, "predicted": filled}


def _given(arguments: Namespace) -> list[str]:
    """The text of the command line, or those on standard input, a line each."""
    if arguments.input != STDIN:
        return [arguments.input]
    texts = [line.rstrip("\n") for line in sys.stdin if line.strip()]
    if not texts:
        raise ValueError("standard input holds no text")
    return texts


def _texts(file: Path) -> list[str]:
    """The texts to fill in: the lines of a text file, else the column `text`."""
    from iolaus.runner.data.read.documents import open_source
    from iolaus.runner.data.read.opened import AS_FOUND

    reading = AS_FOUND if file.suffix else AS_FOUND._replace(format="txt")
    source = open_source(file, "text", "train", "line", reading=reading)
    if source.tokenized or not (texts := list(source.documents())):
        raise ValueError(f"{str(file)!r} holds no text")
    return texts


def _line(row: dict[str, Any], as_json: bool) -> str:
    """A row as a line: JSON for a file's, words for one text."""
    if as_json:
        return json.dumps(row, ensure_ascii=False) + "\n"
    predicted, probability = row["predicted"], row.get("probability")
    if "words" in row:
        pairs = zip(row["words"], predicted, strict=True)
        return " ".join(f"{word}/{label}" for word, label in pairs) + "\n"
    if isinstance(predicted, list):
        both = zip(predicted, probability, strict=True)  # type: ignore[arg-type]
        return (", ".join(f"{label} {share:.3f}" for label, share in both) or "none") + "\n"
    shown = str(predicted) if predicted != "" else "(no answer)"
    return shown + (f"  {probability:.3f}" if isinstance(probability, float) else "") + "\n"


def _is_file(arguments: Namespace) -> bool:
    """Whether the input is a file, or the folder of a saved data set."""
    from iolaus.runner.data.read.files import is_saved

    if arguments.input is None or len(arguments.input) >= 1000:
        return False
    return Path(arguments.input).is_file() or is_saved(Path(arguments.input))


def _looks_like_file(text: str) -> bool:
    """Whether a text that is no file was meant to be one."""
    from iolaus.runner.data.read.formats import DOCUMENTS, ROWS, ending_format

    return " " not in text and ending_format(Path(text[:200])) in {*DOCUMENTS, *ROWS}


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[TextIO]:
    """The screen, or a file that appears when all is written."""
    if path is None:
        yield sys.stdout
        return
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        yield file
