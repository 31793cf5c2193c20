"""Mines hard negatives for the pairs of a file, by a model of vectors.

  tiryns mine RUN pairs.jsonl --out mined.jsonl --relative-margin 0.05
  tiryns mine RUN pairs.csv --out mined.csv --range 10:50 --random data.text_column=question

RUN is a run of experiment=contrastive, or a folder of sentence-transformers. PAIRS takes the values of data.train for
data=pairs. All its distinct passages are ranked for each query. The nearest passages that do not belong to the query
(by rows with the same query, or the same data.match_column) are added to each row, in a column `negative`.
"""

import re
import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from omegaconf import OmegaConf

from tiryns.conf.values import count_of
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.lazy import many_imports
from tiryns.runner.run.yaml_files import settings_in

WHY = {"scores": "the limits of scores leave no more", "passages": "the file has no more passages for them"}


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add = parser.add_argument
    add("run", metavar="RUN", help="run of experiment=contrastive, or folder of sentence-transformers")
    add("pairs", metavar="PAIRS", help="file, folder or hub name of pairs")
    add("settings", nargs="*", metavar="data.NAME=VALUE", help="such as data.text_column=question")
    add("--out", type=Path, required=True, metavar="FILE", help="csv, tsv, jsonl or parquet to write")
    add("--negatives", type=int, default=3, metavar="N", help="negatives of each row (3)")
    add("--skip", type=int, metavar="N", help="passages to pass over before the first negative (0)")
    add("--range", metavar="A:B", help="skips A passages, and uses no rank beyond B")
    add("--max-score", type=float, metavar="S", help="the highest cosine of a negative")
    add("--margin", type=float, metavar="M", help="least distance from the own passage's cosine")
    about = "--margin as a share of the own passage's cosine, such as 0.05"
    add("--relative-margin", type=float, metavar="R", help=about)
    add("--random", action="store_true", help="draws from the range instead of taking the first")
    add("--seed", type=int, default=0, metavar="N", help="seed of --random (0)")
    add("--scores", action="store_true", help="adds the cosines: of the own passage, then of the negatives")


def main(arguments: Namespace) -> None:
    """Writes the file, and prints a summary of it."""
    with many_imports():
        from tiryns.runner.cli.models.evaluate import progress
        from tiryns.runner.inference.mining import Mining, mine

    skip, last = arguments.skip or 0, None
    if arguments.range is not None:
        if arguments.skip is not None or not re.fullmatch(r"\d+:\d+", arguments.range):
            raise ValueError(f"--range {arguments.range}: expected two numbers such as 10:50, and no --skip")
        skip, last = map(int, arguments.range.split(":"))
    mining = Mining(
        arguments.negatives, skip, last, arguments.max_score, arguments.margin, arguments.relative_margin,
        arguments.random, arguments.seed,
    )  # fmt: skip
    words = [word.removeprefix("data.") for word in arguments.settings]
    settings = settings_in(OmegaConf.from_dotlist(words))
    facts = mine(arguments.run, arguments.pairs, arguments.out, mining, settings, arguments.scores, progress)
    if arguments.json:
        print_json(facts)
        return
    rows, passages = count_of(facts["rows"], "row"), count_of(facts["passages"], "passage")
    print(f"{rows} with up to {mining.negatives} of {passages} as negatives: {facts['target']}")
    for reason, count in facts["fewer"].items():
        if count:
            print(f"fewer than {mining.negatives} for {count_of(count, 'row')}: {WHY[reason]}")
    print(f"train on them with {shlex.join(facts['settings'])}")
