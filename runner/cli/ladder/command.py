"""The best learning rate of each width, the law of the loss, and the next size predicted before it is trained.

  tiryns ladder KEY=VALUE... --widths 64,128,256 --rates 1e-3,2e-3,4e-3,8e-3   one sweep of widths, rates and seeds
  tiryns ladder ... --next 512          predicts that width, trains it at the rate to expect, and compares
  tiryns ladder ... --coordinates 10    the change of activations in the first steps, by width
  tiryns ladder FOLDER                  the results of its runs, without training

Heads keep their size, and feed-forward layers their proportion. If a ladder was stopped, the same command resumes it.
`optimizer.parametrization` sets how learning rates and initial weights scale with the width.
Exit status: 0, 3 if a width has no optimum among the rates, 1 an error, 130 or 75 interrupted.
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from fractions import Fraction
from itertools import product
from pathlib import Path

from omegaconf import DictConfig

from tiryns.runner.cli.compose import compose, initialize
from tiryns.runner.cli.judge.sides import comparison_folder, train_sweep
from tiryns.runner.cli.ladder.rungs import SIZES, ladder_in, lines, predict, write_page
from tiryns.runner.config.checks import check_config
from tiryns.runner.config.permissions import on_command_line
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.command.status import NOT_CLEAR
from tiryns.runner.run.command.words import numbers
from tiryns.runner.run.files import LADDER, read_json, write_atomically

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Factors on the learning rate of the recipe; they give the rates of a ladder if `--rates` is unset."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add = parser.add_argument
    about = "the folder of a ladder or a sweep, or overrides that all runs share"
    add("words", nargs="*", metavar="FOLDER|KEY=VALUE", help=about)
    add("--widths", type=numbers(int), default=[64, 128, 256], metavar="N,...", help="widths (64,128,256)")
    about = "learning rates (a quarter to four times that of the recipe)"
    add("--rates", type=numbers(float), metavar="RATE,...", help=about)
    add("--seeds", default=3, type=int, metavar="N", help="seeds of each rate, from 1 (3)")
    add("--next", type=int, metavar="N", help="a width to predict and then to train")
    add("--of", choices=SIZES, default=SIZES[0], help="what the loss is a law of (parameters)")
    add("--metric", metavar="KEY", help="the loss (the one that chooses the best checkpoint)")
    about = "compares activations after STEPS steps instead, with one seed at the recipe's rate"
    add("--coordinates", type=int, metavar="STEPS", help=about)
    add("--out", type=Path, metavar="FILE", help="the page (ladder.html in the folder of the runs)")


def main(arguments: Namespace) -> None:
    """Trains missing runs, writes the page and prints the results; ends with status 3 if a width has no best rate."""
    folder = next((Path(word) for word in arguments.words if os.path.isdir(word)), None)
    if folder is None:
        folder = _train(arguments)
    elif len(arguments.words) > 1 or arguments.next or arguments.coordinates:
        raise ValueError("a ladder folder is only read: give no settings, --next or --coordinates")
    results = ladder_in(folder, arguments.metric, arguments.of)
    results["page"] = str(write_page(arguments.out or folder / "ladder.html", results))
    if arguments.json:
        print_json(results)
    else:
        print(*lines(results), f"the page: {results['page']}", sep="\n", flush=True)
    if not results["coordinates"] and any(each["problem"] for each in results["widths"]):
        sys.exit(NOT_CLEAR)


def _train(arguments: Namespace) -> Path:
    words = list(arguments.words)
    with initialize(), on_command_line(words):
        check_config(config := compose(words))
    _check(arguments, config.model)
    if arguments.coordinates:
        probe = "+callback.coordinates={_target_:runner.callbacks.Coordinates}"
        words += [f"trainer.max_steps={arguments.coordinates}", "data.layout=padded", probe]
    folder = comparison_folder(words, LADDER)
    factors, seeds = ((1.0,), 1) if arguments.coordinates else (FACTORS, arguments.seeds)
    rates = arguments.rates or [factor * config.optimizer.lr for factor in factors]
    train_sweep(folder, _sweep(words, config.model, arguments.widths, rates, seeds), "ladder")
    if width := arguments.next:
        results, record = ladder_in(folder, arguments.metric, arguments.of), read_json(folder / LADDER, {})
        predictions = record.setdefault("predictions", {})
        if (one := predictions.get(str(width))) is None:
            one = predictions[str(width)] = predict(results, width, arguments.widths, seeds)
            write_atomically(folder / LADDER, json.dumps(record, indent=1))
        elif width not in [each["width"] for each in results["predictions"]]:
            problem = f"width {width} was predicted by {one['figure']} of {one.get('of', SIZES[0])}"
            raise ValueError(f"{problem} before it was trained: give that --metric and --of")
        values = ",".join(f"{name}:{one[name]}" for name in ("figure", "value", "low", "high"))
        words.append(f"+callback.prediction={{_target_:runner.callbacks.Prediction,{values}}}")
        train_sweep(folder, _sweep(words, config.model, [width], [one["rate"]], seeds), "ladder")
    return folder


def _sweep(
    words: list[str], model: DictConfig, widths: list[int], rates: list[float], seeds: int
) -> list[str]:
    """Returns the overrides of a sweep, in which heads and feed-forward layers grow with the width."""
    return [
        *words,
        f"model.hidden_size={','.join(map(str, widths))}",
        *(f"model.{name}=${{of_width:{ratio}}}" for name, ratio in _ratios(model).items()),
        f"optimizer.lr={','.join(map(repr, rates))}",
        f"seed={','.join(map(str, range(1, seeds + 1)))}",
    ]


def _ratios(model: DictConfig) -> dict[str, Fraction]:
    names = ("num_attention_heads", "intermediate_size")
    return {name: Fraction(model[name], model.hidden_size) for name in names}


def _check(arguments: Namespace, model: DictConfig) -> None:
    if "hidden_size" not in model or "num_attention_heads" not in model:
        raise ValueError("a ladder builds its models: choose random weights, such as model=bert_tiny")
    least = 2 if arguments.coordinates else 3
    if len(set(arguments.widths)) < least:
        raise ValueError(f"--widths: expected {least} widths or more, such as 64,128,256")
    if arguments.coordinates and (arguments.next or len(arguments.rates or [0]) > 1):
        raise ValueError(
            "--coordinates compares widths at one rate: leave out --next, and all --rates but one"
        )
    if arguments.rates and len(set(arguments.rates)) < 3 and not arguments.coordinates:
        raise ValueError("--rates: expected three rates or more, as the best rate must lie between others")
    if arguments.seeds < 1 or (arguments.coordinates or 1) < 1:
        raise ValueError("--seeds and --coordinates must be 1 or more")
    for width, (name, ratio) in product([*arguments.widths, arguments.next or 0], _ratios(model).items()):
        if (ratio * width).denominator > 1:
            raise ValueError(f"width {width} would have {ratio * width} for model.{name}: choose others")
    if arguments.next in arguments.widths:
        raise ValueError(f"--next {arguments.next} is one of --widths, so nothing is left to predict")
