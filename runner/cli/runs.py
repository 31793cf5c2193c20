"""Lists the runs under `outputs/`, shows one, or compares several. Imports no torch."""

import fnmatch
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from tiryns.conf.values import suggest
from tiryns.runner.config.skipped import rewinds_in_words
from tiryns.runner.report.comparison.differences import RECIPE, SCALE, changed_settings
from tiryns.runner.report.comparison.settings import Comparison
from tiryns.runner.report.summary import clock, noted_plateau, plateau_note, resume_command, show
from tiryns.runner.report.table import as_text, compared_content, compared_text
from tiryns.runner.run.command.failure import coded
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.errors import reason_of
from tiryns.runner.run.folder import Branch, Run

WHAT = {"list": "no RUN", "show": "one RUN", "compare": "RUN RUN ..."}

OPTIONAL = ("note", "branch of", "failure")
"""Columns of the list that are left out where no run has anything in them."""

KNOWN = ("started", "ended", "step", "max_steps", "seconds", "monitor", "mode", "error")
"""Fields of `status.json` that every entry of the list has."""

SPEED = ("perf/tokens_per_second", "perf/fill")
"""Logged metrics that are not among a run's results."""

PIPED = 120
"""Characters in a line of the list if the output is no terminal."""

STATES = ("waiting", "running", "killed", "interrupted", "preempted", "failed", "pruned", "done")


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    about = "list: runs that match; show: settings and figures of a run; compare: what differs between runs"
    parser.add_argument("what", nargs="?", type=_action, choices=WHAT, default="list", help=about)
    about = "a run folder, or a part of its name that no other run has"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=about)
    about = "folder of the run folders (outputs)"
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help=about)
    parser.add_argument("--state", choices=STATES, help="runs in this state")
    parser.add_argument("--name", metavar="PATTERN", help="runs of this name, * matches anything")
    about = "runs with this setting, such as optimizer=lion or optimizer.lr=0.001"
    parser.add_argument("--with", dest="given", action="append", default=[], metavar="KEY=VALUE", help=about)


def main(arguments: Namespace) -> None:
    """Lists runs, shows one, or compares several."""
    count = len(arguments.runs)
    if not {"list": count == 0, "show": count == 1, "compare": count > 0}[arguments.what]:
        takes = f"takes {WHAT[arguments.what]}, not {count} of them"
        raise coded("bad_arguments", f"tiryns runs {arguments.what} {takes}")
    runs = [find_run(arguments.outputs, run) for run in arguments.runs]
    if arguments.what == "show":
        show_run(runs[0], arguments.json)
    elif arguments.what == "compare":
        if arguments.json:
            print_json(compared_content(runs))
        else:
            print(compared_text(Comparison(runs)), end="")
    else:
        list_runs(arguments)


def _action(word: str) -> str:
    """Returns the word if it is an action; raises ArgumentTypeError with a suggestion if it is not."""
    if word in WHAT:
        return word
    hint = suggest(word, WHAT) or f"; for a run: tiryns runs show {word}"
    raise ArgumentTypeError(f"invalid choice: {word!r} (choose from {', '.join(WHAT)}){hint}")


def list_runs(arguments: Namespace) -> None:
    """Prints a line for each matching run, the newest last, cut to the terminal's width or `PIPED`; JSON is not cut."""
    rows = [row for run in all_runs(arguments.outputs) if (row := _matching_entry(run, arguments))]
    if arguments.json:
        print_json(rows)
    elif not rows:
        print(f"no run under {str(arguments.outputs)!r} fits")
    else:
        heads = [head for head in rows[0] if head not in OPTIONAL or any(row[head] for row in rows)]
        cells, width = [[row[head] for head in heads] for row in rows], get_terminal_size((PIPED, 24)).columns
        print(as_text(heads, cells, width=width), end="")


def _matching_entry(run: Run, arguments: Namespace) -> dict[str, object] | None:
    """Returns the line or JSON entry of a matching run, else None; unreadable files give the state `damaged`."""
    try:
        name = str(run.path.relative_to(arguments.outputs))
        if not (
            (not arguments.name or fnmatch.fnmatch(name, arguments.name))
            and (not arguments.state or run.state == arguments.state)
            and all(run.has(*setting.partition("=")[::2]) for setting in arguments.given)
        ):
            return None
        entry = entry_of(run)
        return entry if arguments.json else _row(entry, arguments.outputs)
    except Exception as error:
        if arguments.state or arguments.given:
            return None
        why = f"a file in the folder is damaged: {reason_of(error)}"
        entry = {"folder": run.path, **dict.fromkeys(KNOWN), "state": "damaged"}
        entry |= {"results": {}, "overrides": [], "plateau": None, "branch_of": None, "failure": why}
        return entry if arguments.json else _row(entry, arguments.outputs)


def entry_of(run: Run) -> dict[str, Any]:
    """Returns the JSON entry of a run: its `status.json`, with None or an empty value for each missing key."""
    branch = run.branch
    return {
        "folder": run.path, **dict.fromkeys(KNOWN), **run.status, "state": run.state,
        "results": run.status.get("results") or {}, "overrides": run.known_overrides,
        "plateau": noted_plateau(run),
        "branch_of": branch and {"run": branch.parent, "checkpoint": branch.checkpoint or None},
        "failure": run.failure or None,
    }  # fmt: skip


def show_run(run: Run, as_json: bool = False) -> None:
    """Prints a run's state, its changed settings and its metrics."""
    status, recipe = run.status, run.override_values.get(RECIPE)
    changes = changed_settings(run.settings, recipe, run.override_values.get(SCALE)) or []
    more = {"restarts": run.restarts, "rewinds": rewinds_in_words(run.path)}
    if as_json:
        settings = [{"name": name, "value": value, "default": default} for name, value, default in changes]
        facts = {"recipe": recipe, "settings": settings, **more}
        print_json({**entry_of(run), **facts, "command": run.command, "go_on_with": resume_command(run)})
        return
    state = {
        "state": run.state + (f": {status['error']}" if status.get("error") else ""),
        "plateau": noted_plateau(run), "step": f"{run.step:,} of {status.get('max_steps') or '?'}",
        "time": clock(status.get("seconds") or 0), "branch of": str(run.branch or ""), **more,
        "started": str(status.get("started"))[:19], "folder": str(run.path), "command": run.command,
        "go on with": resume_command(run),
    }  # fmt: skip
    source = f"in {RECIPE}={recipe}" if recipe else "default"
    texts = {name: f"{value}  ({source} {default})" for name, value, default in changes}
    speeds = {name: value for name in SPEED if (value := run.final(name)) is not None}
    figures = {name: f"{value:,.5g}" for name, value in sorted((run.results | speeds).items())}
    entries = {name: value for name, value in state.items() if value}
    show(run.name, {"run": entries, "settings": texts, "figures": figures})


def all_runs(outputs: Path) -> list[Run]:
    """Returns every run below a folder, jobs of sweeps included, by start; raises ValueError for a missing folder."""
    if not outputs.is_dir():
        raise coded("no_such_run", f"there is no folder {str(outputs)!r}: name another (--outputs FOLDER)")
    runs = [Run(file.parent) for file in outputs.glob("**/status.json")]
    return sorted(runs, key=lambda run: (str(run.status.get("started") or "~"), str(run.path)))


def find_run(outputs: Path, name: str) -> Run:
    """Returns the run in the folder `name`, or the only run with `name` in its path; ValueError for none or several."""
    if (Path(name) / "status.json").is_file():
        return Run(Path(name))
    runs = {str(run.path.relative_to(outputs)): run for run in all_runs(outputs)}
    matches = [runs[name]] if name in runs else [run for path, run in runs.items() if name in path]
    if len(matches) != 1:
        subject, verb = (f"{len(matches)} runs", "have") if matches else ("no run", "has")
        message = f"{subject} under {str(outputs)!r} {verb} {name!r} in the name"
        raise coded("no_such_run", message + suggest(name, runs))
    return matches[0]


def _row(entry: dict[str, Any], outputs: Path) -> dict[str, object]:
    branch = entry["branch_of"]
    return {
        "run": str(entry["folder"].relative_to(outputs)), "state": entry["state"],
        "note": plateau_note(entry["plateau"]), "step": entry["step"],
        "time": clock(entry["seconds"]) if entry["seconds"] is not None else None,
        "best": entry["results"].get("objective"), "overrides": " ".join(entry["overrides"]),
        "branch of": str(Branch(branch["run"], branch["checkpoint"] or "")) if branch else "",
        "failure": entry["failure"] or "",
    }  # fmt: skip
