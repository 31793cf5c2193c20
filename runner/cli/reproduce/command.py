"""Builds a run again, and tells whether it came out the same.

  tiryns reproduce RUN                trains the run anew in a new folder, and compares what it computes
  tiryns reproduce manifest.json      the same from its manifest alone
  tiryns reproduce RUN --steps 200    the first 200 steps
  tiryns reproduce RUN --code         uses the program's commit and patch that the run was trained with
  tiryns reproduce RUN --with RUN     compares two existing runs, and trains nothing

Code, packages and data are compared first. Each difference is printed; --anyway trains in spite of differences. KEY=VALUE
changes a setting, such as trainer.devices=2, gives a new path of the data, or allows code of yours that the run names.

The exit status is 0 if the runs are identical, 3 if they are equal to rounding, 4 if they are different, 2 if nothing was
trained because code, packages or data differ, and 1 for an error.
"""

import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from tiryns.runner.cli.reproduce import rebuilding
from tiryns.runner.manifest.inputs import Manifest
from tiryns.runner.run.command.json_output import as_json, print_json
from tiryns.runner.run.command.status import DIFFERENT, DONE, NOT_BEGUN, NOT_CLEAR
from tiryns.runner.run.files import write_atomically

REPORT = "reproduction.json"
"""File in the rebuilt run's folder with its comparison to the recorded run."""

STATUS = {"identical": DONE, "equal to rounding": NOT_CLEAR, "different": DIFFERENT}


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a run, an exported model, or a manifest.json")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="settings to change")
    parser.add_argument("--steps", type=int, metavar="N", help="trains N steps of the run's schedule")
    parser.add_argument("--anyway", action="store_true", help="goes on where code, packages or data differ")
    parser.add_argument("--code", action="store_true", help="runs the recorded commit, from this repository")
    parser.add_argument("--with", dest="other", type=Path, metavar="RUN", help="compares with this run")


def main(arguments: Namespace) -> None:
    """Trains a run again and compares it with the recorded run; the verdict is the exit status."""
    original = rebuilding.read_run(arguments.run)
    if arguments.other is not None and (arguments.code or arguments.steps is not None or arguments.settings):
        raise ValueError("--with trains nothing, so it takes neither --code nor --steps nor settings")
    if arguments.code:
        place = original.folder or arguments.run.resolve().parent
        words = ["reproduce", str(arguments.run), *arguments.settings]
        words += [f"--steps={arguments.steps}"] if arguments.steps is not None else []
        words_again = [*words, *(f"--{name}" for name in ("anyway", "json") if getattr(arguments, name))]
        sys.exit(rebuilding.run_recorded_code(original.manifest, place, words_again))
    rebuilt = arguments.other or rebuild(original, arguments)
    from tiryns.runner.cli.reproduce.comparison import compare, describe

    report = compare(original, rebuilding.read_run(rebuilt))
    report = {"run": str(arguments.run), "rebuilt": str(rebuilt), **report}
    if arguments.other is None:
        write_atomically(rebuilt / REPORT, as_json(report))
    if arguments.json:
        print_json(report)
    else:
        which = "compared with" if arguments.other else "the rebuilt run:"
        print("", *describe(report), f"  {which} {rebuilt}", sep="\n")
    sys.exit(STATUS[report["verdict"]])


def rebuild(original: rebuilding.Recorded, arguments: Namespace) -> Path:
    """Trains the run and returns its folder; without --anyway, ends with status 2 if code, packages or data differ."""
    from tiryns.runner.cli.compose import compose, initialize
    from tiryns.runner.manifest.differences import MADE, differences
    from tiryns.runner.run.command.lifetime import same_modules
    from tiryns.runner.run.recording import new_name

    steps = steps_to_train(original, arguments.steps)
    with initialize():
        words = rebuilding.words_of(original.manifest, arguments.settings, steps, original.folder)
        config = compose(words)
        now = current_facts(config, words, original.manifest["resolved"])
    reasons = [str(one) for one in differences(original.manifest, now, MADE)]
    for reason in reasons:
        print(reason, file=sys.stderr)
    if reasons and not arguments.anyway:
        print("error: the run would be made otherwise (above); --anyway goes on", file=sys.stderr)
        if arguments.json:
            print_json({"run": arguments.run, "rebuilt": None, "verdict": None, "reasons": reasons})
        sys.exit(NOT_BEGUN)
    folder = Path(str(config.outputs)) / new_name()
    overrides = [*words, f"hydra.run.dir={folder}"]
    command = [sys.executable, *same_modules(), "-m", "tiryns.runner.train", *overrides]
    environment = rebuilding.environment_of(original.manifest, arguments.settings)
    if status := subprocess.run(command, env={**environment, **os.environ}, check=False).returncode:
        sys.exit(f"error: the rebuilding in {str(folder)!r} ended with status {status}")
    return folder


def current_facts(config: DictConfig, words: Sequence[str], began: Manifest) -> Manifest:
    """Returns a manifest's code, packages and inputs for a run of this config; `began` has the recorded `auto` values."""
    from tiryns.runner.callbacks.manifest import inputs_of
    from tiryns.runner.config.checks import check_config
    from tiryns.runner.config.permissions import on_command_line
    from tiryns.runner.config.run_config import complete
    from tiryns.runner.loop.assembly import make_data, prepare_and_connect
    from tiryns.runner.loop.trainer import quiet_libraries
    from tiryns.runner.manifest.code import code
    from tiryns.runner.run.environment import packages

    quiet_libraries()
    with on_command_line(words):
        check_config(config)
    full_config = complete(config)
    data = make_data(full_config, began)
    if data.serves_global_batches:
        prepare_and_connect(full_config, data)
    point = Path(config.resume) if config.resume else None
    return {"code": code(), "packages": packages(), "inputs": inputs_of(data, config, True, point)}


def steps_to_train(original: rebuilding.Recorded, steps: int | None) -> int | None:
    """Returns the step after which the rebuilt run stops, at most the last recorded one; None if it trains to its end."""
    first, last = original.steps[0].step, original.steps[-1].step
    if steps is None:
        return None if original.manifest.get("complete") else last
    if steps < first:
        raise ValueError(
            f"--steps {steps}: the run has no digests before step {first}, by its callback.manifest.every"
        )
    return None if steps >= last and original.manifest.get("complete") else min(steps, last)
