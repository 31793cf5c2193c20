"""Makes an energon data set, ready for `data=energon`, of ROWS.jsonl and the IMAGES that its rows name.

Rows are conversations about images as `data=image_text` takes them: `image` (a path below IMAGES, several, or none) and
`conversations` (LLaVA's), `caption`, or `question` and `answer`. Each is checked, its images are decoded once, and both
are written to tar shards with energon's metadata; equal input gives equal shards.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from iolaus.runner.data.energon.prepare import prepare, prepare_shapes
from iolaus.runner.data.vision.conversations import COLUMNS


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the words of the command."""
    parser.usage = "%(prog)s [options] ROWS.jsonl IMAGES FOLDER\n       %(prog)s [options] --shapes FOLDER"
    parser.add_argument(
        "places", nargs="+", type=Path, metavar="PLACE",
        help="the rows, the folder of their images, and the folder to write",
    )  # fmt: skip
    parser.add_argument(
        "--shapes", action="store_true", help="write the drawn scenes of data=shapes to FOLDER"
    )
    parser.add_argument(
        "--validation", type=float, default=0.05,
        help="share of the images to hold out, or how many; rows of one image stay together (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--validation-rows", metavar="ROWS.jsonl", help="rows of their own to validate on")
    parser.add_argument(
        "--column", action="append", default=[], metavar="NAME=OTHER",
        help=f"another name of a column, such as question=statement; columns are {', '.join(COLUMNS)}",
    )  # fmt: skip
    parser.add_argument(
        "--samples-per-shard", type=int, default=1000, help="of one tar file (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the order, and of what is held out (default: 0)"
    )


def main(arguments: Namespace) -> None:
    """Writes the data set, and says what it holds.

    Raises:
        ValueError: places or columns that are not as the usage says, or what `prepare` raises.
    """
    places = arguments.places
    if len(places) != (1 if arguments.shapes else 3):
        raise ValueError(
            "expected "
            + ("FOLDER alone with --shapes" if arguments.shapes else "ROWS.jsonl, IMAGES and FOLDER")
        )
    if unequal := next((pair for pair in arguments.column if "=" not in pair), None):
        raise ValueError(f"--column {unequal}: expected NAME=OTHER")
    if arguments.shapes:
        counts = prepare_shapes(places[-1], arguments.samples_per_shard, arguments.seed)
    else:
        rows, images, folder = places
        counts = prepare(
            rows,
            images,
            folder,
            validation_rows=arguments.validation_rows,
            validation=arguments.validation,
            columns=dict(pair.split("=", 1) for pair in arguments.column),
            samples_per_shard=arguments.samples_per_shard,
            seed=arguments.seed,
        )
    written = ", ".join(f"{split}: {count:,} samples" for split, count in counts.items())
    print(f"{places[-1]}: {written}\ntrain on it with: iolaus data=energon data.path={places[-1]} ...")
