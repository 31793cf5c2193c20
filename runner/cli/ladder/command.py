"""The best learning rate of each width, the law of the loss, and the next size predicted before it is trained.

  tiryns ladder KEY=VALUE... --widths 64,128,256 --rates 1e-3,2e-3,4e-3,8e-3   one sweep of widths, rates and seeds
  tiryns ladder ... --next 512          predicts that width, trains it at the rate to expect, and compares
  tiryns ladder ... --coordinates 10    how far activations move in the first steps, width by width
  tiryns ladder FOLDER                  what its runs say, without training

A width has as many layers as the model, heads of the same size, and as wide a feed-forward layer in proportion. The same
command goes on where it was stopped. `optimizer.parametrization` says how rates and initial weights go with the width.
Exit status: 0, 3 where a width has no optimum among the rates, 1 an error, 130 or 75 interrupted.
"""

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from tiryns.runner.cli.compose import compose, initialized
from tiryns.runner.cli.judge.missing import comparison_folder, train_sweep
from tiryns.runner.cli.ladder import shown
from tiryns.runner.cli.ladder.rungs import SIZES, ladder_in, predicted
from tiryns.runner.config.checks import check_config
from tiryns.runner.config.permissions import on_command_line
from tiryns.runner.run.command.json_output import add_json_argument, print_json
from tiryns.runner.run.command.status import NOT_CLEAR
from tiryns.runner.run.command.words import quoted
from tiryns.runner.run.files import LADDER, read_json, write_atomically

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The rates of a ladder, in those of the recipe, where none are given."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    about = "the folder of a ladder or a sweep, or overrides that all runs share"
    parser.add_argument("words", nargs="*", metavar="FOLDER|KEY=VALUE", help=about)
    parser.add_argument(
        "--widths", type=_numbers(int), default=[64, 128, 256], metavar="N,...", help="widths (64,128,256)"
    )
    about = "learning rates (a quarter to four times that of the recipe)"
    parser.add_argument("--rates", type=_numbers(float), metavar="RATE,...", help=about)
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds of each rate, from 1 (3)")
    about = "a width to predict and then to train"
    parser.add_argument("--next", type=int, metavar="N", help=about)
    parser.add_argument(
        "--of", choices=SIZES, default=SIZES[0], help="what the loss is a law of (parameters)"
    )
    parser.add_argument("--metric", metavar="KEY", help="the loss (the one that chooses the best checkpoint)")
    about = "compares activations after so many steps instead, with one seed at the recipe's rate"
    parser.add_argument("--coordinates", type=int, metavar="STEPS", help=about)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the page (ladder.html in the folder of the runs)"
    )
    add_json_argument(parser)


def main(arguments: Namespace) -> None:
    """Trains what is missing and prints what the runs say; ends with status 3 where a width has no optimum."""
    folder = next((Path(word) for word in arguments.words if Path(word).is_dir()), None)
    if folder is None:
        folder = _trained(arguments)
    elif len(arguments.words) > 1 or arguments.next or arguments.coordinates:
        raise ValueError(
            "the folder of a ladder is read as it is: give it alone, or the overrides of its runs"
        )
    found = ladder_in(folder, arguments.metric, arguments.of)
    found["page"] = str(shown.write_page(arguments.out or folder / "ladder.html", found))
    if arguments.json:
        print_json(found)
    else:
        print(*shown.lines(found), f"the page: {found['page']}", sep="\n")
    sys.stdout.flush()
    if not found["coordinates"] and any(each["problem"] for each in found["widths"]):
        sys.exit(NOT_CLEAR)


def _trained(arguments: Namespace) -> Path:
    """The folder of a ladder, in which what was missing is trained."""
    words = list(arguments.words)
    with initialized(), on_command_line(words):
        check_config(config := compose(words))
    _check(arguments, config)
    if arguments.coordinates:
        words += [
            f"trainer.max_steps={arguments.coordinates}",
            "data.layout=padded",
            "+callback.coordinates={_target_:runner.callbacks.Coordinates}",
        ]
    folder = comparison_folder(words, LADDER)
    widths, factors = arguments.widths, (1.0,) if arguments.coordinates else FACTORS
    rates = arguments.rates or [factor * config.optimizer.lr for factor in factors]
    seeds = range(1, 2 if arguments.coordinates else arguments.seeds + 1)
    train_sweep(_sweep(folder, words, config, widths, rates, seeds), "ladder")
    if arguments.next and not arguments.coordinates:
        noted = read_json(folder / LADDER, {})
        predictions = noted.setdefault("predictions", {})
        if (one := predictions.get(str(arguments.next))) is None:
            found = ladder_in(folder, arguments.metric, arguments.of)
            one = predicted(found, arguments.next, widths, arguments.seeds)
            predictions[str(arguments.next)] = one
            write_atomically(folder / LADDER, json.dumps(noted, indent=1))
        values = ",".join(f"{name}:{one[name]}" for name in ("figure", "value", "low", "high"))
        words.append(f"+callback.prediction={{_target_:runner.callbacks.Prediction,{values}}}")
        train_sweep(_sweep(folder, words, config, [arguments.next], [one["rate"]], seeds), "ladder")
    return folder


def _sweep(
    folder: Path,
    words: Sequence[str],
    config: Any,
    widths: Sequence[int],
    rates: Sequence[float],
    seeds: range,
) -> list[str]:
    """The command of a sweep, as one would type it behind `tiryns`; heads and feed-forward layers grow with the width."""
    return [
        *("-m", f"hydra.sweep.dir={quoted(str(folder))}", *words),
        f"model.hidden_size={','.join(map(str, widths))}",
        *(f"model.{name}=${{of_width:{ratio}}}" for name, ratio in _ratios(config.model).items()),
        f"optimizer.lr={','.join(map(repr, rates))}",
        f"seed={','.join(map(str, seeds))}",
    ]


def _ratios(model: Any) -> dict[str, Fraction]:
    """Heads and the width of feed-forward layers over the width."""
    return {
        name: Fraction(model[name], model.hidden_size)
        for name in ("num_attention_heads", "intermediate_size")
    }


def _check(arguments: Namespace, config: Any) -> None:
    """Raises ValueError for arguments that make no ladder."""
    if "hidden_size" not in config.model or "num_attention_heads" not in config.model:
        raise ValueError(
            "a ladder builds its models: choose one with random weights, such as model=bert_tiny"
        )
    least = 2 if arguments.coordinates else 3
    if len(set(arguments.widths)) < least:
        raise ValueError(f"--widths: expected {least} widths or more, such as 64,128,256")
    if arguments.rates and len(set(arguments.rates)) < 3 and not arguments.coordinates:
        raise ValueError("--rates: expected three rates or more, as the best one lies between others")
    if arguments.seeds < 1 or (arguments.coordinates or 1) < 1:
        raise ValueError("--seeds and --coordinates must be 1 or more")
    for width, (name, ratio) in product(
        [*arguments.widths, arguments.next or 0], _ratios(config.model).items()
    ):
        if (ratio * width).denominator > 1:
            raise ValueError(
                f"width {width} would have {ratio * width} for model.{name}: choose widths in its steps"
            )
    if arguments.next in arguments.widths:
        raise ValueError(f"--next {arguments.next} is one of --widths, so nothing is left to predict")


def _numbers(kind: Callable[[str], float]) -> Callable[[str], list[float]]:
    """What reads numbers of a kind with commas between them."""

    def read(text: str) -> list[float]:
        try:
            return [kind(word) for word in text.split(",")]
        except ValueError:
            raise ArgumentTypeError(f"expected numbers with commas between them, not {text!r}") from None

    return read
