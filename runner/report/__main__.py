"""`python -m runner.report RUN [RUN ...] [--out FILE] [--format html|md|csv]`: a report of one run, or a comparison."""

import argparse
import os
import sys
from pathlib import Path

from iolaus.runner.report.comparison import write_comparison
from iolaus.runner.report.runs import find_runs, load_run
from iolaus.runner.report.single import report_page, save
from iolaus.runner.report.table import as_csv, as_markdown

TABLES = {"md": as_markdown, "csv": as_csv}


def main(arguments: list[str] | None = None) -> int:
    """Writes the page and prints where it lies; a folder that is no run gives one message and status 1."""
    parser = argparse.ArgumentParser(prog="python -m runner.report", description="Draws runs.")
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run folders, or the folder of a sweep"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the page")
    parser.add_argument(
        "--format",
        choices=("html", *TABLES),
        default="html",
        help="a page, or the table of a comparison alone",
    )
    options = parser.parse_args(arguments)
    try:
        if options.format == "html":
            print(write(options.runs, options.out))
        else:
            table = TABLES[options.format]([load_run(run) for run in each_run(options.runs)])
            print(save(options.out, table) if options.out else table, end="\n" if options.out else "")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
