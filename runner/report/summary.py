"""Prints the facts of a run at its start, and its metrics at its end."""

import math
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from tiryns.runner.config.permissions import words_to_repeat
from tiryns.runner.config.skipped import described_rewind, noted_rewinds
from tiryns.runner.logging import log_file
from tiryns.runner.run.command.words import flags
from tiryns.runner.run.files import typed_path
from tiryns.runner.run.folder import Run

FILES = {
    "model": "model", "report": "report.html", "metrics": "metrics.csv", "checkpoints": "checkpoints",
    "config": "config.yaml", "profile": "profile.txt", "trace": "profile.json",
}  # fmt: skip
"""Files of a run folder by what they hold."""

WIDTH = 100
"""Width of a panel in columns, at most."""

MARGIN = 0.02
"""A loss is well below its unigram entropy if it is lower by more than this share of the entropy."""

STOPPING = "callback.stop_after.steps"
"""The setting that ends a run before its full length."""

STANDS_AT = "stands at its unigram entropy"
"""Text in the warning about a loss that is within `MARGIN` of its unigram entropy."""

CONSTANT = {
    "/majority_": "no better than always naming the largest class",
    "/constant_": "no better than one answer to all",
}
"""Text in the note on a model that is no better than a constant answer; a key is a part of the level's name."""

OVERFITTING = "overfitting"

ADVICE = (
    "train longer; if the loss stays there, try a lower optimizer.lr, a longer scheduler.warmup_steps, another seed, or "
    "a pre-norm model (modernbert_tiny is one)"
)


def end_summary(folder: Path, results: Mapping[str, float], state: str | None = None) -> None:
    """Prints the metrics of a run that is about to have this `state`, its files, and the command that resumes it."""
    folder = typed_path(folder)
    run = Run(folder, state)
    present = {label: name for label, name in FILES.items() if (folder / name).exists()}
    files = {label: str(folder / name) for label, name in present.items()}
    if sys.stdout.isatty() and get_terminal_size().columns < WIDTH:  # whole paths would be broken
        files = {"folder": str(folder), **present}
    plateau = plateau_of(results, run)
    note = {"plateau": plateau} if plateau else {}
    for number, rewind in enumerate(noted_rewinds(folder), start=1):
        note[f"rewind {number}"] = described_rewind(rewind)
    figures = _figures(results, run.status.get("monitor"))
    show("done", {"result": figures, "note": note, "files": files}, folder)
    if again := resume_command(run):
        print(f"go on with: {again}", flush=True)  # outside the panel, to be copied


def group_summary(rows: Sequence[Mapping[str, Any]], schedule: str) -> None:
    """Prints the parameter groups of an optimizer, as `runner.optim.groups_table` lists them, and its schedule."""
    groups = {
        row["name"]: f"{row['parameters']:,} in {row['tensors']} tensors"
        + (f" such as {row['example']}" if row["example"] and not sys.stdout.isatty() else "")
        + f", lr {row['lr']:.3g}, decay {row['weight_decay']:.3g}"
        for row in rows
    }
    show("optimizer", {"parameters": groups, "schedule": {"phases": schedule} if schedule else {}})


def resume_command(run: Run) -> str | None:
    """Returns the command that resumes a run, with its original flags; a finished run gets twice the length and time.

    None for a finished run with phases: its phases fix its length, so only a branch with other phases can continue it.
    """
    words, status = run.command_words(), run.status
    is_done = status.get("state") == "done"
    if is_done and status.get("phases"):
        return None
    length = max(status.get("step") or 0, status.get("max_steps") or 0) if is_done else 0
    lengths = ["trainer.max_steps", *({word.partition("=")[0] for word in words} & {STOPPING})]
    longer = [f"{name}={2 * length}" for name in lengths] if length else []
    if length and (seconds := run.settings.get("trainer.max_seconds")):  # those of the finished run count too
        longer.append(f"trainer.max_seconds={2 * seconds}")
    again = [f"resume={run.path}", *words_to_repeat(run.path, words), *longer]
    return shlex.join(["tiryns", *flags(words), *again])


def clock(seconds: float) -> str:
    """Returns hours, minutes and seconds: `0:03`, `12:40`, `1:02:03`, `2d 01:00:00`."""
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def validation_set(key: str) -> str | None:
    """Returns the validation set whose loss has this key: `books` for `val/books/loss`; None for any other metric."""
    match = re.fullmatch(r"val/(.+)/loss", key)
    return match[1] if match else None


def compared_losses(results: Mapping[str, float]) -> dict[str, tuple[float, float | None]]:
    """Returns each validation set's loss and unigram entropy, the loss of a model that knows only token frequencies."""
    names = [name for key in results if (name := validation_set(key)) is not None]
    return {name: (results[f"val/{name}/loss"], results.get(f"val/{name}/unigram_entropy")) for name in names}


def plateau_of(results: Mapping[str, float], run: Run | None = None) -> str | None:
    """Returns a warning if no loss is well below its unigram entropy, or no metric is better than a constant answer.

    One good loss is enough, as sets may differ from the training text. The warning names overfitting if `run` shows it.
    """
    if at_constant := _at_constant(results, run):
        return at_constant
    losses = compared_losses(results)
    ratios = [(loss / unigram, loss, unigram, name) for name, (loss, unigram) in losses.items() if unigram]
    if not ratios or min(ratios)[0] < 1 - MARGIN:
        return None
    ratio, loss, unigram, name = min(ratios)
    if ratio > 1 + MARGIN:
        relation = "is above its unigram entropy"
        meaning = "the model knows less than how frequent tokens are: train longer"
    elif ratio >= 1 - MARGIN:
        relation = STANDS_AT
        meaning = f"the model knows how frequent tokens are and nothing of their context; {ADVICE}"
    else:  # not a number
        relation = "is not below its unigram entropy"
        meaning = f"the model knows no more than how frequent tokens are; {ADVICE}"
    meaning = (run and _overfitting(run, name)) or meaning
    return f"the loss {loss:.3f} of {name} {relation} {unigram:.3f}: {meaning}"


def _at_constant(results: Mapping[str, float], run: Run | None) -> str | None:
    """Returns a note if no metric of any validation was better than the same metric of a constant answer; else None."""
    levels = {
        key.replace(start, "/"): (value, start)
        for key, value in results.items()
        for start in CONSTANT
        if start in key
    }
    signs = {key: -1 if key.endswith("/mse") else 1 for key in levels if key in results}
    if not signs or any(sign * (results[key] - levels[key][0]) > 0 for key, sign in signs.items()):
        return None
    curves = run.series if run else {}  # read last, as a list has many runs
    for key in signs.keys() & curves.keys():
        if (signs[key] * (curves[key].values - levels[key][0])).max() > 0:
            return None
    key = next(iter(signs))
    level, start = levels[key]
    more = " or a higher optimizer.lr"
    if start == "/majority_":
        more = ", a higher optimizer.lr, or objective.class_weights=balanced"
    return f"{key} {results[key]:.3f} is {CONSTANT[start]} ({level:.3f}): take more steps{more}"


def _overfitting(run: Run, name: str) -> str | None:
    """Returns a note if a validation loss has risen since its best step, and the training loss has fallen; else None."""
    validation, training = run.series.get(f"val/{name}/loss"), run.series.get("train/loss")
    if validation is None or training is None:
        return None
    best = int(validation.values.argmin())
    step, lowest = validation.steps[best], validation.values[best]
    before = training.values[training.steps <= step]
    rises = validation.values[-1] > (1 + MARGIN) * lowest
    if not rises or not len(before) or training.values[-5:].mean() >= before[-5:].mean():
        return None
    return (
        f"it was best at step {step:,} ({lowest:.3f}) and rises since, while the training loss falls: {OVERFITTING}; "
        f"take fewer steps (trainer.max_steps={step}) or more text"
    )


def noted_plateau(run: Run) -> str | None:
    """Returns the plateau warning of a run, from its status or else from its final metrics."""
    return run.status.get("plateau") or plateau_of(run.results, run)


def plateau_note(plateau: str | None) -> str:
    """Returns a plateau warning in two or three words, for lists of runs; empty without one.

    Example:
        >>> plateau_note(plateau_of({"val/books/loss": 8.0, "val/books/unigram_entropy": 6.1}))
        'above unigram entropy'
    """
    if not plateau:
        return ""
    if OVERFITTING in plateau:
        return OVERFITTING
    if CONSTANT["/majority_"] in plateau:
        return "at the largest class"
    if CONSTANT["/constant_"] in plateau:
        return "at one answer"
    return "at unigram entropy" if STANDS_AT in plateau else "above unigram entropy"


def _figures(results: Mapping[str, float], monitor: str | None) -> dict[str, str]:
    figures, exclusions = {}, {"uniform_entropy", "best_step"}
    for name, (loss, unigram) in compared_losses(results).items():
        levels = [] if unigram is None else [against_unigram(loss, unigram)]
        levels += [f"guessing has {results['uniform_entropy']:.3f}"] if "uniform_entropy" in results else []
        figures[f"validation loss, {name}"] = f"{loss:.3f}" + (f"  ({'; '.join(levels)})" if levels else "")
        exclusions |= {f"val/{name}/{figure}" for figure in ("loss", "unigram_entropy", "tokens_per_byte")}
    for key in [key for key in results if key not in exclusions]:
        value, level = results[key], bits_level(key, results)
        if key == "objective":
            step = f" at step {results['best_step']:,.0f}" if "best_step" in results else ""
            figures[f"best {monitor}" if monitor else "best"] = f"{value:.3f}{step}"
        else:
            figures[key] = f"{value:,.4g}" + ("" if level is None else f"  (unigram entropy {level:.4g})")
    return figures


def bits_level(key: str, results: Mapping[str, float]) -> float | None:
    """Returns the unigram entropy in the unit of a metric in bits, such as `val/a/bits_per_byte`; None if unknown."""
    prefix, _, figure = key.rpartition("/")
    scale = {"bits_per_token": 1.0, "bits_per_byte": results.get(f"{prefix}/tokens_per_byte")}.get(figure)
    unigram = results.get(f"{prefix}/unigram_entropy")
    return None if scale is None or unigram is None else unigram / math.log(2) * scale


def against_unigram(loss: float, unigram: float) -> str:
    """Returns in words how far a loss is from its unigram entropy, in nats."""
    relation = "below" if loss < unigram else "above"
    return f"{abs(unigram - loss):.3f} {relation} the unigram entropy {unigram:.3f}"


def show(title: str, sections: Mapping[str, Mapping[str, str]], run_folder: Path | None = None) -> None:
    """Prints facts by section: as a panel in a terminal, else as plain lines; also writes them to the log of the run."""
    sections = {name: facts for name, facts in sections.items() if facts}
    width = max((len(name) for facts in sections.values() for name in facts), default=0)
    lines = [
        line
        for section, facts in sections.items()
        for line in (section, *(f"  {name:<{width}}  {value}" for name, value in facts.items()))
    ]
    if run_folder is not None:
        log_file.append(run_folder, [title, *lines])
    if not sys.stdout.isatty():
        print(*lines, sep="\n", end="\n" if lines else "", flush=True)
        return
    from rich.console import Console  # here, as most commands show nothing
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for section, facts in sections.items():
        for i, (name, value) in enumerate(facts.items()):
            table.add_row(section if i == 0 else "", Text(name), Text(value))
    console = Console()
    width = min(console.width, WIDTH)
    console.print(Panel(table, title=title, title_align="left", border_style="dim", width=width))
