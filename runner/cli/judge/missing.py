"""Trains the runs that a comparison lacks: jobs of sweeps in one folder, which go on where they were stopped."""

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from hydra.core.global_hydra import GlobalHydra

from tiryns.runner import log
from tiryns.runner.cli import commands
from tiryns.runner.cli.compose import compose, initialized
from tiryns.runner.cli.judge.sides import Setting, canonical, noted
from tiryns.runner.config.checks import check_config
from tiryns.runner.config.completed import rate_of_recipe
from tiryns.runner.config.permissions import on_command_line
from tiryns.runner.report.comparison.differences import seed_of
from tiryns.runner.run.command.json_output import output_to_stderr
from tiryns.runner.run.command.words import as_typed, public_overrides, quoted
from tiryns.runner.run.files import JUDGE, newest, write_atomically
from tiryns.runner.run.folder import Run, find_runs, runs_in
from tiryns.runner.run.recording import new_name

BY_SOURCE = "data.without=by:source"
"""The word that stands for leaving out each source of a mixture, in a change of its own."""


def comparison_folder(common: Sequence[str], marked: str = JUDGE) -> Path:
    """The newest folder of comparisons with these common overrides, by the file that marks it, else a new one."""
    words = public_overrides(canonical(common))
    outputs = next((word.partition("=")[2] for word in words[::-1] if word.startswith("outputs=")), "outputs")
    wanted = {"common": sorted(words)}
    found = newest(
        Path(outputs), marked, lambda _, noted: [*map(as_typed, noted.get("common", []))] == wanted["common"]
    )
    if found is None:
        found = new_folder(Path(outputs), marked)
        started = datetime.now().isoformat(timespec="seconds")
        write_atomically(found / marked, json.dumps({**wanted, "started": started}, indent=1))
    return found


def new_folder(outputs: Path, marked: str = JUDGE) -> Path:
    """A new folder for a comparison."""
    folder = outputs / f"{new_name()}-{Path(marked).stem}"
    folder.mkdir(parents=True)
    return folder


def check_settings(common: Sequence[str], settings: Sequence[Setting], own: Sequence[str]) -> None:
    """Raises ValueError for the first setting whose config is wrong, before anything is trained.

    What only the user may set counts where it is among the user's `own` words: `common` may be those of runs of others.
    """
    with initialized(), on_command_line(own):
        for setting in settings:
            check_config(config := compose([*common, *setting.words]))
            if line := rate_of_recipe(config, config.hydra):
                log.warning("%s", line)


def each_source(change: str, words: Sequence[str]) -> list[str]:
    """A change once for each source of the mixture of `words` where it has `data.without=by:source`, else as it is."""
    if BY_SOURCE not in change:
        return [change]
    with initialized(), on_command_line(words):
        mixture = compose([*words]).data.get("mixture") or {}
    if len(mixture) < 2:
        raise ValueError(
            f"{BY_SOURCE} leaves out one source after the other: choose data=mixture with two or more"
        )
    return [change.replace(BY_SOURCE, f"data.without=source:{name}") for name in mixture]


def finished_runs(folder: Path, words: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """The finished runs of these seeds in a folder that were started with just these overrides, but for the seed."""
    runs, wanted = runs_in(folder) if find_runs(folder) else [], set(public_overrides(canonical(words)))
    return [run for run in runs if noted(run) == wanted and run.state == "done" and seed_of(run) in seeds]


def missing_seeds(folder: Path, words: Sequence[str], seeds: Sequence[int]) -> list[int]:
    """The seeds of which these overrides have no finished run in a folder."""
    there = {seed_of(run) for run in finished_runs(folder, words, seeds)}
    return [seed for seed in seeds if seed not in there]


def sweep_words(folder: Path, words: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """The command of a sweep over seeds in a folder, as one would type it behind `tiryns`."""
    return ["-m", f"hydra.sweep.dir={quoted(str(folder))}", *words, f"seed={','.join(map(str, seeds))}"]


def train_missing(folder: Path, words: Sequence[str], seeds: Sequence[int], name: str) -> None:
    """Trains the runs of a setting that are not finished, in this process or by the launcher that the words name.

    What they print goes to standard error.

    Raises:
        ValueError: one of them failed.
        SystemExit: they were interrupted.
    """
    if not (wanted := missing_seeds(folder, words, seeds)):
        return
    print(f"judge: {name}, seed {', '.join(map(str, wanted))}", file=sys.stderr, flush=True)
    train_sweep(sweep_words(folder, words, wanted), "judge")
    if failed := missing_seeds(folder, words, wanted):
        raise ValueError(
            f"{name}: there is no finished run of seed {', '.join(map(str, failed))} in {str(folder)!r} (see above), and "
            "to leave a run out would favour its setting; the same command goes on with what is missing"
        )


def train_sweep(words: Sequence[str], command: str) -> None:
    """Trains the jobs of a sweep that are not done, in this process or by the launcher that the words name.

    What they print goes to standard error, as does why some have failed. Raises SystemExit where they were interrupted.
    """
    GlobalHydra.instance().clear()
    with output_to_stderr():
        try:
            commands.main(["train", *words])
        except SystemExit as ended:
            if isinstance(ended.code, int) and ended.code:
                print(
                    f"{command}: the same tiryns {command} command goes on with what is missing",
                    file=sys.stderr,
                )
                raise
            print(ended.code or "", file=sys.stderr)
