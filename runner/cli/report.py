"""A report of one run, or a comparison of several: `iolaus report RUN [RUN ...] [--out FILE] [--format html|md|csv]`."""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from iolaus.runner.report.comparison import write_comparison
from iolaus.runner.report.runs import find_runs, load_run
from iolaus.runner.report.single import report_page, save
from iolaus.runner.report.table import as_csv, as_markdown

TABLES = {"md": as_markdown, "csv": as_csv}


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the words of the command."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or that of a sweep")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the page")
    formats = ("html", *TABLES)
    parser.add_argument("--format", choices=formats, default="html", help="a page, or the table alone")


def main(arguments: Namespace) -> None:
    """Writes the page and prints where it lies, or prints the table."""
    if arguments.format == "html":
        print(write(arguments.runs, arguments.out))
        return
    table = TABLES[arguments.format]([load_run(run) for run in each_run(arguments.runs)])
    print(save(arguments.out, table) if arguments.out else table, end="\n" if arguments.out else "")


def each_run(folders: list[Path]) -> list[Path]:
    """Run folders, and those in the folders of sweeps."""
    return [run for folder in folders for run in (find_runs(folder) or [folder])]


def write(folders: list[Path], out: Path | None) -> Path:
    """Writes the page that these folders ask for."""
    sweep = find_runs(folders[0]) if len(folders) == 1 and folders[0].is_dir() else []
    if len(folders) == 1 and not sweep:
        return save(out or folders[0] / "report.html", report_page(load_run(folders[0])))
    runs = each_run(folders)
    common = Path(os.path.commonpath([run.resolve().parent for run in runs]))
    path = out or (folders[0] / "report.html" if len(folders) == 1 else common / "comparison.html")
    return write_comparison(path.parent, runs, path.name)
