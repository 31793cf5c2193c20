"""The samples of any step of a run, in their order, without training.

  tiryns order RUN --steps 1:10               the samples of steps 1 to 10, as a table
  tiryns order RUN --steps 1:10 --format csv  the same for programs; parquet with --out FILE
  tiryns order RUN --find TEXT|FILE           was this document trained on, and when?
  tiryns order RUN RUN                        the steps in which two runs' samples differ, and how much they share

KEY=VALUE allows code of your own that a run's config names, as on the command line of `tiryns train`.
"""

import re
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tiryns.runner.cli.models.reading import is_setting
from tiryns.runner.report.table import as_text
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.command.status import DIFFERENT
from tiryns.runner.run.command.tables import write_rows
from tiryns.runner.run.files import writing
from tiryns.runner.run.lazy import many_imports

if TYPE_CHECKING:
    from tiryns.runner.cli.order.opened import SampleOrder
    from tiryns.runner.data.origin.holders import Holder

COLUMNS = ("step", "place", "epoch", "index", "source", "file", "row", "part")
"""Columns of the samples: `row` is a document or row of `file`; `part` is the number of the sequence in `row`, from 1.
A run with phases has `phase` too."""

FORMATS = ("csv", "parquet")
SHOWN = 10  # documents, or steps of one, in a line for people


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="one run folder, or two to compare")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--steps", metavar="A:B", help="steps from 1, both included: 5, 1:10, 90: or :10")
    group.add_argument("--find", metavar="TEXT|FILE", help="a text, or a file of documents")
    parser.add_argument("--format", choices=FORMATS, help="format of --steps, for programs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="file to write")


def main(arguments: Namespace) -> None:
    """Prints samples, uses of a text or differences; ends with status 4 if the data has changed since the training."""
    words = [word for word in arguments.runs if is_setting(word, ".*")]
    folders = [Path(word) for word in arguments.runs if word not in words]
    has_query = arguments.steps is not None or arguments.find is not None
    if len(folders) != (1 if has_query else 2):
        raise ValueError("give one RUN with --steps A:B or --find TEXT|FILE, or two RUNs to compare")
    if arguments.format and (arguments.json or arguments.steps is None):
        raise ValueError("--format is for --steps alone, and does not go with --json")
    if arguments.format == "parquet" and arguments.out is None:
        raise ValueError("parquet is for a file: name it with --out FILE")
    with many_imports():
        from tiryns.runner.cli.order.opened import SampleOrder
        from tiryns.runner.launch.processes import quiet_threads
        from tiryns.runner.loop.trainer import quiet_libraries

    quiet_threads()
    quiet_libraries()
    orders = [SampleOrder(folder, words) for folder in folders]
    steps: list[int] = []
    if arguments.steps is not None:
        steps = steps_of(arguments.steps, orders[0].num_steps)
        show_steps(orders[0], steps, arguments)
    elif arguments.find is not None:
        show_found(orders[0], arguments)
    else:
        show_differences(orders, arguments)
    for order in orders:
        _check(order, steps or sorted(order.hashes)[:1], arguments.steps is not None)


def steps_of(text: str, num_steps: int) -> list[int]:
    """Returns the steps of `A:B`, A and B included; ValueError for other text, B below A, or steps outside the run."""
    match = re.fullmatch(r"(\d*)(:?)(\d*)", text)
    if not match or not text.strip(":"):
        raise ValueError(f"--steps {text}: expected a step or a range, such as 5, 1:10, 90: or :10")
    first, colon, last = match.groups()
    low = int(first or 1)
    high = int(last or num_steps) if colon else low
    if not 1 <= low <= high <= num_steps:
        raise ValueError(f"--steps {text}: the run has steps 1 to {num_steps:,}")
    return list(range(low, high + 1))


def show_steps(order: "SampleOrder", steps: list[int], arguments: Namespace) -> None:
    """Writes a line for each sample of the steps."""
    from tiryns.runner.data.origin.places import places_of

    places = {part: places_of(part.data) for part in {*map(order.at, steps)}}
    columns = [*COLUMNS, *(["phase"] if any(map(order.phase_at, steps)) else [])]
    rows = [
        (step, place, epoch, index, *places[order.at(step)].of(index), order.phase_at(step))[: len(columns)]
        for step in steps
        for place, (epoch, index) in zip(*(part.tolist() for part in order.in_places(step)), strict=True)
    ]
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    if arguments.json:
        print_json(records, arguments.out)
    elif arguments.format:
        write_rows(records, arguments.out, arguments.format)
    else:
        with writing(arguments.out) as out:
            out.write(as_text(columns, [list(row) for row in rows]))


def show_found(order: "SampleOrder", arguments: Namespace) -> None:
    """Writes, for each document that holds the text, its set (such as `training`) and the steps that trained on it."""
    texts = order.find(arguments.find)
    if arguments.json:
        content = [{"text": text, "found": [asdict(one) for one in holders]} for text, holders in texts]
        print_json({"trained_steps": order.last_step, "texts": content}, arguments.out)
        return
    with writing(arguments.out) as out:
        for text, holders in texts:
            excerpt = text if len(text) <= 60 else f"{text[:57]}..."
            count = _count(len(holders), "document or row holds", "documents or rows hold")
            out.write(f"{excerpt!r}: {count} it\n")
            for one in holders[:SHOWN]:
                out.write(f"  {_line(one, order.last_step)}\n")
            if len(holders) > SHOWN:
                out.write(f"  and {len(holders) - SHOWN:,} more (--json shows all)\n")


def _line(one: "Holder", last_step: int) -> str:
    line = f"{one.file or one.source}, {one.row}: {one.set}"
    if not one.sequences:
        return line
    past = [o for o in one.occurrences if o["step"] <= last_step]
    line += f", {_count(len(one.sequences), 'sequence', 'sequences')}, "
    line += f"trained on {_count(len(past), 'time', 'times')}" if past else "in no step that was trained"
    steps = [f"{o['step']} (epoch {o['epoch']}, place {o['place']})" for o in past]
    line += f": steps {', '.join(steps[:SHOWN])}" if past else ""
    line += f" and {len(steps) - SHOWN:,} more" if len(steps) > SHOWN else ""
    later = [o["step"] for o in one.occurrences if o["step"] > last_step]
    return line + (f"; planned from step {later[0]:,} on" if later else "")


def show_differences(orders: list["SampleOrder"], arguments: Namespace) -> None:
    """Writes where two runs differ."""
    from tiryns.runner.cli.order.opened import differences

    report = differences(*orders)
    if arguments.json:
        print_json(report, arguments.out)
        return
    with writing(arguments.out) as out:
        same = "the same" if report["same_data"] else "other"
        out.write(f"both trained {_count(report['steps'], 'step', 'steps')}, on {same} training data\n")
        for name, subject in (("different_steps", "samples"), ("different_masks", "masks alone")):
            spans = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in report[name]]
            more = f" and {len(spans) - SHOWN:,} more ranges" if len(spans) > SHOWN else ""
            out.write(f"{subject} differ in steps: {', '.join(spans[:SHOWN]) or 'none'}{more}\n")
        first, second = report["samples"]
        out.write(f"a step shares {report['shared_of_a_step']:.1%} of its samples\n")
        out.write(f"samples: {first:,} and {second:,}, of which {report['shared_samples']:,} are in both\n")


def _check(order: "SampleOrder", steps: list[int], tell: bool) -> None:
    """Compares the data with the hashes of steps in `order.txt`; ends with status 4 if the data has changed."""
    in_log = [step for step in steps if step in order.hashes]
    if changes := list(order.changed_steps(in_log)):
        print(
            f"the data has changed since {str(order.path)!r} was trained: the samples of step {changes[0]:,} have "
            f"another hash than in order.txt ({_count(len(changes), 'step', 'steps')} of {len(in_log):,} checked)",
            file=sys.stderr,
        )
        sys.exit(DIFFERENT)
    if tell:
        rest = _count(len(steps) - len(in_log), "step was", "steps were")
        missing = f"; {rest} not trained, or not recorded" if len(in_log) < len(steps) else ""
        print(f"{_count(len(in_log), 'step agrees', 'steps agree')} with order.txt{missing}", file=sys.stderr)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
