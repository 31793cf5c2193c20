"""Predicts with a trained model: labels, labels of words, answers, or tokens for masks.

`iolaus predict RUN "a text"`, or `RUN FILE` for every example of a file, or `RUN -` for every line of standard
input. RUN is a run folder or the folder of a Hugging Face model. Where a file has labels, metrics are shown too, and
written beside the predictions (`--out p.jsonl` makes `p.figures.json`). `--second` is the other text of a pair, or the
context of a question. A language model fills in each [MASK], or writes `--length N` tokens. A vision-language model
answers a question about `--image FILE`, or each of a file's questions about images below `--images FOLDER`.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iolaus.runner.run.command.json_output import add_json_argument, print_json
from iolaus.runner.run.files import writing
from iolaus.runner.run.lazy import many_imports

STDIN = "-"


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", metavar="RUN", help="run folder, or folder of a Hugging Face model")
    about = "a text, a file of examples, or - for texts on standard input, a line each"
    parser.add_argument("input", nargs="?", metavar="TEXT|FILE|-", help=about)
    parser.add_argument("--second", metavar="TEXT", help="the other text of a pair, or a question's context")
    parser.add_argument("--out", type=Path, metavar="FILE", help="file to write (the screen)")
    parser.add_argument("--tokens", type=int, help="tokens of a micro-batch (those of the run, else 8192)")
    about = "a module of yours that registers the model's task, or metrics"
    parser.add_argument("--import", dest="imports", action="append", default=[], metavar="MODULE", help=about)
    add_json_argument(parser)
    seeing = parser.add_argument_group("questions about images")
    seeing.add_argument("--image", action="append", default=[], metavar="FILE", help="an image of the text")
    seeing.add_argument("--images", metavar="FOLDER", help="folder of a file's images (the file's own)")
    seeing.add_argument("--max-new-tokens", type=int, default=32, help="the longest answer, in tokens (32)")
    filling = parser.add_argument_group("filling in masks")
    filling.add_argument("--length", type=int, help="number of tokens of a text without a prompt")
    filling.add_argument("--steps", type=int, default=1000, help="steps from all masked to none (1000)")
    about = "random: MDLM's sampler; confidence: the most likely tokens first"
    filling.add_argument("--order", default="random", help=about)
    about = "temperature of the sampling; 0 takes the most likely token"
    filling.add_argument("--temperature", type=float, default=1.0, help=about)
    filling.add_argument("--samples", type=int, default=1, help="texts to print, one per line")
    filling.add_argument("--seed", type=int, default=0, help="seed of the sampling")


def main(arguments: Namespace) -> None:
    """Prints predictions, or writes them to a file, and shows their metrics where there are labels."""
    rows, figures = _predicted(arguments)
    if arguments.json:
        print_json({"predictions": list(rows), "figures": figures}, arguments.out)
        return
    with writing(arguments.out) as out:
        for row in rows:
            out.write(_line(row, as_json=arguments.input == STDIN or _is_file(arguments)))
    for name, value in figures.items():
        print(f"{name} {value:.6g}", file=sys.stderr)
    if figures and arguments.out is not None:
        with writing(arguments.out.with_suffix(".figures.json")) as file:
            file.write(json.dumps(figures, indent=1) + "\n")


def _predicted(arguments: Namespace) -> tuple[Iterator[dict[str, Any]], dict[str, float]]:
    """Predictions, and their metrics where a file has labels."""
    with many_imports():
        from iolaus.runner.inference.answering import Answerer
        from iolaus.runner.inference.labelled import Predictor, predict, rows_of_file, rows_of_texts
        from iolaus.runner.inference.trained_model import load_trained_model
        from iolaus.runner.tasks import import_modules

    is_file = _is_file(arguments)
    if arguments.input is None and arguments.length is None:
        raise ValueError('give a text or a file, or --length N: iolaus predict RUN "a [MASK] text"')
    if arguments.input is not None and not is_file and _looks_like_file(arguments.input):
        raise FileNotFoundError(f"there is no file {arguments.input!r}")
    import_modules(arguments.imports, "--import")
    model = load_trained_model(arguments.run)
    if isinstance(model, Answerer):
        return _answered(model, arguments), {}
    if arguments.image or arguments.images:
        raise ValueError(f"the model in {arguments.run!r} reads no images: leave out --image and --images")
    if not isinstance(model, Predictor):
        return _filled(*model, arguments), {}
    if arguments.length is not None:
        raise ValueError(f"--length is for language models; the model in {arguments.run!r} has a task")
    if is_file:
        return predict(model, rows_of_file(model, arguments.input), arguments.tokens)
    return predict(model, rows_of_texts(model, _given(arguments), arguments.second), arguments.tokens)


def _answered(answerer: Any, arguments: Namespace) -> Iterator[dict[str, Any]]:
    """Answers to questions about images."""
    from iolaus.runner.data.read.rows import Row, read_rows
    from iolaus.runner.data.vision.images import ImageFolder
    from iolaus.runner.inference.answering import ImageFiles, answer, questions_of

    is_file, names, images = _is_file(arguments), answerer.reader.columns, arguments.image
    if arguments.input is None:
        raise ValueError("this model answers questions: give a text with --image FILE, or a file of them")
    if arguments.max_new_tokens < 1:
        raise ValueError("--max-new-tokens must be at least 1")
    if is_file and images:
        raise ValueError("--image is for one text; the images of a file's rows lie below --images FOLDER")
    files: Any = ImageFolder(arguments.images or Path(arguments.input).parent) if is_file else ImageFiles()
    if is_file:
        rows = read_rows(arguments.input).rows
    else:
        texts = _given(arguments)
        rows = [Row("the text", {names["question"]: text, names["image"]: images}) for text in texts]
    return answer(answerer, questions_of(answerer, rows), files, arguments.max_new_tokens)


def _filled(model: Any, tokenizer: Any, arguments: Namespace) -> Iterator[dict[str, Any]]:
    """Texts with their masks filled in."""
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
    """The text of the command line, or the lines of standard input."""
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
    """A prediction as a line of JSON or of text."""
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
    """Whether a text is the name of a file by its ending."""
    from iolaus.runner.data.read.formats import DOCUMENTS, ROWS, ending_format

    return " " not in text and ending_format(Path(text[:200])) in {*DOCUMENTS, *ROWS}
