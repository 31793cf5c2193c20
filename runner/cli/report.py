"""A report of a run or a suite, or a comparison of runs: `tiryns report RUN [RUN ...] [--format html|md|csv|tex]`."""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from tiryns.runner.cli.runs import all_runs
from tiryns.runner.report.comparison.importance import Importance
from tiryns.runner.report.comparison.pages import write_comparison
from tiryns.runner.report.comparison.settings import Comparison
from tiryns.runner.report.page import save
from tiryns.runner.report.single import write_report
from tiryns.runner.report.suite.figures import Content, read_suite_results
from tiryns.runner.report.suite.table import suite_as, write_suite
from tiryns.runner.report.table import compared_as, compared_content
from tiryns.runner.run.command.json_output import add_json_argument, print_json
from tiryns.runner.run.files import replaceable
from tiryns.runner.run.folder import Run, runs_in
from tiryns.runner.run.model_folder import is_ours
from tiryns.runner.sweeps.study import study_importance

FORMATS = ("html", "md", "csv", "tex")


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    about = "run folders, or folders with runs, sweeps or a suite"
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=about)
    parser.add_argument("--out", type=Path, metavar="FILE", help="file to write")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--format", choices=FORMATS, help="a page, or the table (by --out, else html)")
    add_json_argument(how)


def main(arguments: Namespace) -> None:
    """Writes the page and prints its path, or prints the table."""
    folders, out = arguments.runs, arguments.out
    ending = out.suffix.removeprefix(".") if out else ""
    form = arguments.format or (ending if ending in FORMATS else "html")
    suite = read_suite_results(folders[0]) if len(folders) == 1 else {}
    runs = [] if suite else [run for folder in folders for run in _runs_of(folder)]
    if arguments.json:
        print_json(suite or compared_content(runs), out)
    elif form == "html":
        print(_write_page(folders, suite, runs, out))
    else:
        importance = None if suite or form == "csv" else _importance(folders)  # csv has no row for it
        table = suite_as(form, suite) if suite else compared_as(form, runs, importance)
        with replaceable(out):
            print(save(out, table) if out else table, end="\n" if out else "")


def _runs_of(folder: Path) -> list[Run]:
    """Returns the run or runs in a folder, else all runs below it; raises the error of `load_run` if there are none."""
    try:
        return runs_in(folder)
    except ValueError:
        if runs := all_runs(folder):
            return runs
        raise


def _write_page(folders: list[Path], suite: Content, runs: list[Run], out: Path | None) -> Path:
    if suite:
        with replaceable(out):
            return write_suite(folders[0], suite, out)
    common = Path(os.path.commonpath([run.path.resolve().parent for run in runs]))
    path = out or (folders[0] / "report.html" if len(folders) == 1 else common / "comparison.html")
    with replaceable(None if is_ours(path.parent) else path):
        if [run.path for run in runs] == folders[:1]:
            return write_report(folders[0], path=path)
        return write_comparison(path.parent, Comparison(runs), path.name, _importance(folders))


def _importance(folders: list[Path]) -> Importance | None:
    """Returns the importance of the settings if the only folder is an Optuna sweep; None if it is unknown."""
    return study_importance(folders[0]) if len(folders) == 1 else None
