"""Measures a trained model on new data: labelled examples, or text for a language model.

`tiryns evaluate RUN FILE ...`: RUN is a run folder, the folder of a Hugging Face model, or its name on the hub. The
metrics are those of the run's test, or of its validation for a language model, each with a 95 % interval; a table has a
row for each file. For a vision-language model files hold questions about the images below `data.images=FOLDER`.
`--label-column NAME`, or `data.label_column=NAME` and other settings of `data`, say how the files are read.
`--out FOLDER` writes `evaluation.json`, the predictions and `report.html`. The exit status is 0, or 1 with one line if
a file cannot be measured; then nothing is written.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from tiryns.runner.cli.models.reading import add_reading_arguments, is_setting, reading_settings
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.files import replaceable
from tiryns.runner.run.folder import Run
from tiryns.runner.run.lazy import many_imports
from tiryns.runner.run.yaml_files import settings_in

if TYPE_CHECKING:
    from tiryns.runner.inference.evaluated import Evaluation
    from tiryns.runner.inference.passes import Report

SECONDS_PER_LINE = 10.0
"""Seconds between lines of progress; a terminal redraws its line every 0.1 s."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add = parser.add_argument
    add("run", metavar="RUN", help="run folder, folder of a Hugging Face model, or its name on the hub")
    about = "files to measure it on, and settings of how they are read, such as data.label_column=NAME"
    add("files", nargs="*", metavar="FILE", help=about)
    add("--out", type=Path, metavar="FOLDER", help="folder to write figures, predictions and page to")
    add("--batch-size", type=int, metavar="N", help="most samples of a micro-batch (the run's)")
    add("--tokens", type=int, metavar="N", help="tokens of a micro-batch (the run's, else 8192)")
    add("--precision", help="32-true or bf16-mixed (the run's, else 32-true)")
    add("--resamples", type=int, default=1000, metavar="N", help="resamples per interval (1000; 0: none)")
    add("--seed", type=int, default=0, metavar="N", help="seed of resamples and choice of documents (0)")
    about = "a validation file, to fit a temperature and sets of labels on before calibration is measured"
    add("--calibration", metavar="FILE", help=about)
    add_reading_arguments(parser)
    seeing = parser.add_argument_group("questions about images")
    about = "number of questions in each file to answer, or all (the run's, else 500)"
    seeing.add_argument("--answers", metavar="N|all", help=about)
    seeing.add_argument(
        "--max-new-tokens", type=int, metavar="N", help="tokens of an answer (the run's, else 32)"
    )
    text = parser.add_argument_group("language models")
    text.add_argument("--objective", metavar="NAME", help="mlm, clm or diffusion (the run's or model's)")
    about = "also the pseudo-perplexity of N documents, or of all: each token masked alone"
    text.add_argument("--pseudo-perplexity", default="0", metavar="N|all", help=about)


def main(arguments: Namespace) -> None:
    """Prints the metrics, and writes them with `--out`."""
    with many_imports():
        from tiryns.runner.inference.evaluated import Asked, evaluate
        from tiryns.runner.tasks import import_modules

    if arguments.out is not None and arguments.out.exists() and not arguments.out.is_dir():
        raise FileExistsError(f"--out {arguments.out} is a file: expected the name of a folder")
    with replaceable(*_output_files(arguments.out)):
        pass  # nothing is measured for files that could not be written
    settings, files = reading_settings(arguments, arguments.files)
    sizes = {"micro_batch_size": arguments.batch_size, "micro_batch_tokens": arguments.tokens}
    settings |= {name: value for name, value in sizes.items() if value is not None}
    import_modules(arguments.imports, "--import")
    answers = None  # as many as the run
    if arguments.answers is not None:
        if (answers := _number_or_all("--answers", arguments.answers)) == 0:
            raise ValueError("--answers 0: expected 1 or more, or all")
        answers = answers or 0  # all
    options = Asked(
        settings, arguments.precision, arguments.objective, arguments.resamples, arguments.seed,
        _number_or_all("--pseudo-perplexity", arguments.pseudo_perplexity), answers,
        arguments.max_new_tokens, "--on-bad-row skip", arguments.calibration,
    )  # fmt: skip
    if word := next((file for file in files if is_setting(file, r"[\w.]+\.\w+")), None):
        raise ValueError(f"{word} is not read here: expected files and settings of data (others are flags)")
    if not files:
        raise ValueError("name a file to measure the model on: tiryns evaluate RUN FILE")
    if twice := next((file for file in files if files.count(file) > 1), None):
        raise ValueError(f"{twice} is named twice")
    if arguments.calibration in files:
        raise ValueError(f"--calibration {arguments.calibration}: this file is measured; fit on another file")
    every = [*files, *([arguments.calibration] if arguments.calibration else [])]
    evaluation = evaluate(arguments.run, {file: file for file in every}, options, progress)
    _show(evaluation, arguments.out, arguments.json)
    monitor = str(Run(Path(arguments.run)).status.get("monitor") or "")
    figure = monitor.rpartition("/")[2]
    is_computed = any(figure in entry["metrics"] for entry in evaluation.content["sets"].values())
    if "task" in evaluation.content and monitor.startswith("val/") and not is_computed:
        print(
            f"{figure}, by which the run chose its best checkpoint, is not computed, as nothing here defines it: name "
            "the module that registers it by --import MODULE",
            file=sys.stderr,
        )


def _show(evaluation: "Evaluation", folder: Path | None, as_json: bool = False) -> None:
    """Prints the metrics of an evaluation and the rows left out; writes it to a folder, if any."""
    from tiryns.runner.data.read.bad_rows import describe
    from tiryns.runner.report.evaluation import figures_rows
    from tiryns.runner.report.table import as_text

    if folder is not None:
        write(evaluation, folder)
    if as_json:
        print_json(evaluation.content)
    else:
        print(as_text(*figures_rows(evaluation.content)), end="")
    for name, entry in evaluation.content["sets"].items():
        if (of := entry.get("calibration")) and not as_json:
            fit = of["fitted_on"]
            print(
                f"{name}: calibration error {of['error']:.3f}, with temperature {fit['temperature']:.2f} (fitted on "
                f"{fit['set']}) {of['calibrated_error']:.3f}; sets of {of['set_size']:.2f} labels hold the true one in "
                f"{of['coverage']:.1%} (wanted {of['level']:.0%})"
            )
        if note := describe(entry.get("left_out", {})):
            print(f"{name}: {note}", file=sys.stderr)


def evaluate_sets(config: DictConfig, folder: Path) -> None:
    """Runs `mode=evaluate`: measures the run that `resume` names on `data.test`, or a text model on `data.validation`."""
    with many_imports():
        from tiryns.runner.data.evaluated import by_name
        from tiryns.runner.inference.evaluated import BAD_ROW, KNOWN_SETTINGS, Asked, evaluate
        from tiryns.runner.inference.passes import run_config
        from tiryns.runner.tasks import import_modules

    if config.resume in (None, "auto"):
        raise ValueError("mode=evaluate measures a finished run: name its folder by resume=RUN")
    if config.resume.endswith(".ckpt"):
        raise ValueError("mode=evaluate needs a folder: export the checkpoint to one by `tiryns consolidate`")
    data = settings_in(config.data, resolve=True)
    part = "test" if "test" in data else "validation"
    if not (sets := by_name(data.get(part), part)):
        advice = "data.test=FILE" if part == "test" else "data.validation={NAME: FILE}"
        raise ValueError(f"mode=evaluate: data.{part} names no data to measure the run on; set {advice}")
    if any(name == "_target_" or isinstance(source, Mapping) for name, source in sets.items()):
        raise ValueError(f"mode=evaluate: data.{part} is made in code: name a file with data.{part}=FILE")
    import_modules(config.imports)
    # The run's own settings are not asked for again: its encoding does not hold for a later file in UTF-8
    run = run_config(config.resume) or DictConfig({"data": {}, "trainer": {}})
    run_data = {**settings_in(run.data, resolve=True), BAD_ROW: None}
    values = {name: data[name] for name in KNOWN_SETTINGS if name in data}
    settings = {name: value for name, value in values.items() if value != run_data.get(name)}
    precision = str(config.trainer.get("precision", "auto"))
    options = Asked(settings, None if precision in ("auto", run.trainer.get("precision")) else precision)
    _show(evaluate(config.resume, sets, options, progress), folder)


def write(evaluation: "Evaluation", folder: Path) -> None:
    """Writes metrics, predictions and page into a folder."""
    from tiryns.runner.report.evaluation import write_page

    with replaceable(*_output_files(folder)):
        evaluation.write(folder)
        write_page(folder)
    print(f"written to {folder}: {', '.join(sorted(f.name for f in folder.iterdir()))}", file=sys.stderr)


def _output_files(folder: Path | None) -> list[Path]:
    names = ("evaluation.json", "predictions.jsonl", "documents.jsonl", "report.html")
    return [folder / name for name in names] if folder is not None else []


def _number_or_all(option: str, value: str) -> int | None:
    """Returns the number that an option gives; None for `all`."""
    if value == "all":
        return None
    if not value.isdigit():
        raise ValueError(f"{option} {value}: expected a number, or all")
    return int(value)


def progress(name: str) -> "Report":
    """Returns a function that shows a set's finished samples on stderr: in place if it is a terminal, else every 10 s."""
    in_place = sys.stderr.isatty()
    due = time.monotonic() + (0 if in_place else SECONDS_PER_LINE)

    def report(done: int, total: int) -> None:
        nonlocal due
        now = time.monotonic()
        if now < due and not (in_place and done == total):
            return
        due = now + (0.1 if in_place else SECONDS_PER_LINE)
        end = "\n" if not in_place or done == total else "\r"
        print(f"{name}: {done:,} of {total:,} samples", end=end, file=sys.stderr, flush=True)

    return report
