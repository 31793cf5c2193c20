"""Makes an energon data set, for `data=energon`, from ROWS.jsonl and the IMAGES that its rows name.

Rows are those of `data=image_text`: `image` (a path below IMAGES, several, or none) and `conversations` (LLaVA's),
`caption`, or `question` and `answer`. All are checked and written to tar shards; equal input gives equal shards.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tiryns.runner.data.energon.prepare import prepare, prepare_shapes
from tiryns.runner.data.vision.conversations import COLUMNS
from tiryns.runner.run.command.json_output import print_json


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.usage = "%(prog)s [options] ROWS.jsonl IMAGES FOLDER\n       %(prog)s [options] --shapes FOLDER"
    about = "the rows, the folder of their images, and the folder to write"
    parser.add_argument("places", nargs="+", type=Path, metavar="PLACE", help=about)
    parser.add_argument("--shapes", action="store_true", help="write the scenes of data=shapes to FOLDER")
    about = "number or share of the images to hold out, with all of their rows (default: %(default)s)"
    parser.add_argument("--validation", type=float, default=0.05, help=about)
    parser.add_argument("--validation-rows", metavar="ROWS.jsonl", help="rows of their own to validate on")
    about = f"another name of a column, such as question=statement; columns are {', '.join(COLUMNS)}"
    parser.add_argument("--column", action="append", default=[], metavar="NAME=OTHER", help=about)
    about = "samples of a tar file (default: %(default)s)"
    parser.add_argument("--samples-per-shard", type=int, default=1000, help=about)
    about = "seed of the order and of the held-out images (default: %(default)s)"
    parser.add_argument("--seed", type=int, default=0, help=about)


def main(arguments: Namespace) -> None:
    """Writes the data set, and prints the number of its samples; raises ValueError for wrong arguments or rows."""
    places, size, seed = arguments.places, arguments.samples_per_shard, arguments.seed
    if len(places) != (1 if arguments.shapes else 3):
        usage = "FOLDER alone with --shapes" if arguments.shapes else "ROWS.jsonl, IMAGES and FOLDER"
        raise ValueError(f"expected {usage}")
    if unequal := next((pair for pair in arguments.column if "=" not in pair), None):
        raise ValueError(f"--column {unequal}: expected NAME=OTHER")
    if arguments.shapes:
        counts = prepare_shapes(places[-1], size, seed)
    else:
        columns = dict(pair.split("=", 1) for pair in arguments.column)
        rows, images, folder = places
        validation_rows, validation = arguments.validation_rows, arguments.validation
        counts = prepare(rows, images, folder, validation_rows, validation, columns, size, seed)
    if arguments.json:
        print_json({"folder": places[-1], "samples": counts})
        return
    summary = ", ".join(f"{split}: {count:,} samples" for split, count in counts.items())
    print(f"{places[-1]}: {summary}\ntrain on it with: tiryns data=energon data.path={places[-1]} ...")
