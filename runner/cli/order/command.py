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
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--steps", metavar="A:B", help="steps from 1, both included: 5, 1:10, 90: or :10")
    asked.add_argument("--find", metavar="TEXT|FILE", help="a text, or a file of documents")
    parser.add_argument("--format", choices=FORMATS, help="format of --steps, for programs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="file to write")


def main(arguments: Namespace) -> None:
    """Prints samples, uses of a text or differences; ends with status 4 if the data has changed since the training."""
    words = [word for word in arguments.runs if is_setting(word, ".*")]
    folders = [Path(word) for word in arguments.runs if word not in words]
    asked = arguments.steps is not None or arguments.find is not None
    if len(folders) != (1 if asked else 2):
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
        _check(order, steps or sorted(order.noted)[:1], arguments.steps is not None)


def steps_of(given: str, num_steps: int) -> list[int]:
    """Returns the steps of `A:B`, A and B included; ValueError for other text, B below A, or steps outside the run."""
    found = re.fullmatch(r"(\d*)(:?)(\d*)", given)
    if not found or not given.strip(":"):
        raise ValueError(f"--steps {given}: expected a step or a range, such as 5, 1:10, 90: or :10")
    first, colon, last = found.groups()
    low = int(first or 1)
    high = int(last or num_steps) if colon else low
    if not 1 <= low <= high <= num_steps:
        raise ValueError(f"--steps {given}: the run has steps 1 to {num_steps:,}")
    return list(range(low, high + 1))


def show_steps(order: "SampleOrder", steps: list[int], arguments: Namespace) -> None:
    """Writes a line for each sample of the steps."""
    from tiryns.runner.data.origin.places import places_of

    places = places_of(order.data)
    columns = [*COLUMNS, *(["phase"] if order.phase_at(1) is not None else [])]
    rows = [
        (step, place, epoch, index, *places.of(index), order.phase_at(step))[: len(columns)]
        for step in steps
        for place, (epoch, index) in zip(*(part.tolist() for part in order.in_places(step)), strict=True)
    ]
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    if arguments.json:
        print_json(named, arguments.out)
    elif arguments.format:
        write_rows(named, arguments.out, arguments.format)
    else:
        with writing(arguments.out) as out:
            out.write(as_text(columns, [list(row) for row in rows]))


def show_found(order: "SampleOrder", arguments: Namespace) -> None:
    """Writes, for each document that holds the text, its set (such as `training`) and the steps that trained on it."""
    found = order.find(arguments.find)
    if arguments.json:
        content = [{"text": text, "found": [asdict(one) for one in holders]} for text, holders in found]
        print_json({"trained_steps": order.trained, "texts": content}, arguments.out)
        return
    with writing(arguments.out) as out:
        for text, holders in found:
            shown = text if len(text) <= 60 else f"{text[:57]}..."
            count = _count(len(holders), "document or row holds", "documents or rows hold")
            out.write(f"{shown!r}: {count} it\n")
            for one in holders[:SHOWN]:
                out.write(f"  {_line(one, order.trained)}\n")
            if len(holders) > SHOWN:
                out.write(f"  and {len(holders) - SHOWN:,} more (--json shows all)\n")


def _line(one: "Holder", trained: int) -> str:
    line = f"{one.file or one.source}, {one.row}: {one.set}"
    if not one.sequences:
        return line
    past = [o for o in one.occurrences if o["step"] <= trained]
    line += f", {_count(len(one.sequences), 'sequence', 'sequences')}, "
    line += f"trained on {_count(len(past), 'time', 'times')}" if past else "in no step that was trained"
    steps = [f"{o['step']} (epoch {o['epoch']}, place {o['place']})" for o in past]
    line += f": steps {', '.join(steps[:SHOWN])}" if past else ""
    line += f" and {len(steps) - SHOWN:,} more" if len(steps) > SHOWN else ""
    later = [o["step"] for o in one.occurrences if o["step"] > trained]
    return line + (f"; planned from step {later[0]:,} on" if later else "")


def show_differences(orders: list["SampleOrder"], arguments: Namespace) -> None:
    """Writes where two runs differ."""
    from tiryns.runner.cli.order.opened import differences

    found = differences(*orders)
    if arguments.json:
        print_json(found, arguments.out)
        return
    with writing(arguments.out) as out:
        same = "the same" if found["same_data"] else "other"
        out.write(f"both trained {_count(found['steps'], 'step', 'steps')}, on {same} training data\n")
        for name, what in (("different_steps", "samples"), ("different_masks", "masks alone")):
            spans = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in found[name]]
            more = f" and {len(spans) - SHOWN:,} more ranges" if len(spans) > SHOWN else ""
            out.write(f"{what} differ in steps: {', '.join(spans[:SHOWN]) or 'none'}{more}\n")
        ours, theirs = found["samples"]
        out.write(f"a step shares {found['shared_of_a_step']:.1%} of its samples\n")
        out.write(f"samples: {ours:,} and {theirs:,}, of which {found['shared_samples']:,} are in both\n")


def _check(order: "SampleOrder", steps: list[int], tell: bool) -> None:
    """Compares the data with the hashes of steps in `order.txt`; ends with status 4 if the data has changed."""
    known = [step for step in steps if step in order.noted]
    if changed := list(order.changed(known)):
        print(
            f"the data has changed since {str(order.path)!r} was trained: the samples of step {changed[0]:,} have "
            f"another hash than in order.txt ({_count(len(changed), 'step', 'steps')} of {len(known):,} checked)",
            file=sys.stderr,
        )
        sys.exit(DIFFERENT)
    if tell:
        rest = _count(len(steps) - len(known), "step was", "steps were")
        missing = f"; {rest} not trained, or not recorded" if len(known) < len(steps) else ""
        print(f"{_count(len(known), 'step agrees', 'steps agree')} with order.txt{missing}", file=sys.stderr)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
