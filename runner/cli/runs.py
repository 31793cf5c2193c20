"""Which runs there are under `outputs/`, what one of them is, and how several differ. Imports no torch."""

import fnmatch
import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from iolaus.conf.values import suggest
from iolaus.runner.report.comparison import comparison_table
from iolaus.runner.report.runs import changed_settings, flatten, load_run
from iolaus.runner.report.summary import AT_UNIGRAM, clock, plateau_of, resume_command, show
from iolaus.runner.report.table import as_text
from iolaus.runner.run.folder import RunFolder

WHAT = {"list": "no RUN", "show": "one RUN", "compare": "RUN RUN ..."}
"""What there is to do, and which runs it takes."""

STATES = ("waiting", "running", "killed", "interrupted", "preempted", "failed", "pruned", "done")


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the words of the command."""
    parser.add_argument(
        "what", nargs="?", choices=WHAT, default="list",
        help="list: all runs, or those that fit; show: what a run is, and what it reached; compare: settings in which "
        "runs differ, and what they reached",
    )  # fmt: skip
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="a run folder, or a part of its name that no other has"
    )
    parser.add_argument(
        "--outputs", type=Path, default=Path("outputs"), help="where the run folders lie (outputs)"
    )
    parser.add_argument("--state", choices=STATES, help="those in this state")
    parser.add_argument("--name", metavar="PATTERN", help="those of this name, * for anything")
    parser.add_argument("--with", dest="settings", action="append", default=[], metavar="KEY=VALUE",
                        help="those with this setting, such as optimizer=lion or optimizer.lr=0.001")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def main(arguments: Namespace) -> None:
    """Lists runs, shows one, or compares several."""
    count = len(arguments.runs)
    if not {"list": count == 0, "show": count == 1, "compare": count > 0}[arguments.what]:
        raise ValueError(f"iolaus runs {arguments.what} takes {WHAT[arguments.what]}, not {count} of them")
    found = [find_run(arguments.outputs, run) for run in arguments.runs]
    if arguments.what == "show":
        show_run(found[0])
    elif arguments.what == "compare":
        print(as_text(*comparison_table([load_run(run.path) for run in found])), end="")
    else:
        list_runs(arguments)


def list_runs(arguments: Namespace) -> None:
    """Prints a line for each run that fits, the newest last."""
    runs = [run for run in all_runs(arguments.outputs) if _fits(run, arguments)]
    if arguments.json:
        print(
            json.dumps(
                [{"folder": str(run.path), **run.status(), "state": run.state()} for run in runs], indent=1
            )
        )
        return
    if not runs:
        print(f"no run under {str(arguments.outputs)!r} fits")
        return
    rows = [_row(run, arguments.outputs) for run in runs]
    heads = ["run", "state", "note", "step", "time", "best", "overrides"]
    if not any(row[2] for row in rows):
        heads, rows = heads[:2] + heads[3:], [row[:2] + row[3:] for row in rows]
    print(as_text(heads, rows), end="")


def show_run(run: RunFolder) -> None:
    """Prints what a run is: how it stands, its settings unlike the default, and its figures."""
    loaded, status = load_run(run.path), run.status()
    state = {
        "state": run.state() + (f": {status['error']}" if status.get("error") else ""),
        "plateau": loaded.plateau or "",
        "step": f"{loaded.step:,} of {status.get('max_steps') or '?'}",
        "time": clock(status.get("seconds") or 0),
        "started": str(status.get("started")),
        "folder": str(run.path),
        "command": loaded.command,
        "go on with": resume_command(run.path),
    }
    settings = {
        name: f"{value}  (default {default})"
        for name, value, default in changed_settings(loaded.settings) or []
    }
    figures = {name: f"{value:,.5g}" for name, value in sorted(loaded.results.items())}
    state = {name: value for name, value in state.items() if value}
    show(loaded.name, {"run": state, "settings": settings, "figures": figures})


def all_runs(outputs: Path) -> list[RunFolder]:
    """Every run below a folder, jobs of sweeps included, by the time they were started.

    Raises:
        ValueError: there is no such folder.
    """
    if not outputs.is_dir():
        raise ValueError(
            f"there is no folder {str(outputs)!r}: name the one with runs in it by --outputs FOLDER"
        )
    runs = [RunFolder(file.parent) for file in outputs.glob("**/status.json")]
    return sorted(runs, key=lambda run: (str(run.status().get("started") or "~"), str(run.path)))


def find_run(outputs: Path, name: str) -> RunFolder:
    """A run by its folder, or by a part of its name.

    Raises:
        ValueError: no run, or several, have it.
    """
    if (Path(name) / "status.json").is_file():
        return RunFolder(Path(name))
    runs = {str(run.path.relative_to(outputs)): run for run in all_runs(outputs)}
    found = [run for path, run in runs.items() if name in path]
    if len(found) != 1:
        what = "no run" if not found else f"{len(found)} runs"
        raise ValueError(f"{what} under {str(outputs)!r} {'has' if not found else 'have'} {name!r} in the name"
                         + suggest(name, runs))  # fmt: skip
    return found[0]


def _fits(run: RunFolder, arguments: Namespace) -> bool:
    name = str(run.path.relative_to(arguments.outputs))
    if arguments.name and not fnmatch.fnmatch(name, arguments.name):
        return False
    if arguments.state and run.state() != arguments.state:
        return False
    return all(_has(run, *setting.partition("=")[::2]) for setting in arguments.settings)


def _has(run: RunFolder, key: str, value: str) -> bool:
    """Whether a run was started with an override, or has a setting of this value."""
    given = {o.partition("=")[0].lstrip("+"): o.partition("=")[2] for o in _overrides(run)}
    if key in given:
        return given[key] == value
    try:
        from omegaconf import OmegaConf

        settings: Any = dict(flatten(OmegaConf.to_container(OmegaConf.load(run.path / "config.yaml"))))
    except OSError:
        return False
    return key in settings and str(settings[key]) == value


def _row(run: RunFolder, outputs: Path) -> list[Any]:
    status = run.status()
    best = (status.get("results") or {}).get("objective")
    seconds = status.get("seconds")
    return [
        str(run.path.relative_to(outputs)),
        run.state(),
        AT_UNIGRAM if status.get("plateau") or plateau_of(status.get("results") or {}) else None,
        status.get("step"),
        clock(seconds) if seconds is not None else None,
        best,
        " ".join(_overrides(run)),
    ]


def _overrides(run: RunFolder) -> list[str]:
    try:
        return run.overrides()
    except (OSError, ValueError):
        return []
