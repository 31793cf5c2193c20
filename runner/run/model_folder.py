"""The folder of a run as a user names it, its owner, and its exported model. Imports no torch."""

import os
import re
from pathlib import Path

from tiryns.runner.run.command.words import sealed_words
from tiryns.runner.run.files import OF_SWEEPS, read_sweep, read_text, resume_word
from tiryns.runner.run.folder import Run

TASK = "task.json"
"""The file in the model's folder with the task that it was trained for; `tiryns predict` reads it."""

LEFT_EARLY = re.compile(r"\.lock|train\.log|\..+\.\d+\.\d+\.tmp")
"""Files that a run may leave if it is killed before it records its overrides, such as temporary files of `replacing`."""

PARTS_OF_A_RUN = 2
"""Parts of a run, such as evaluations of a checkpoint, lie up to this many levels below the run's folder."""

WRITTEN = ("*", "*/*", "*/checkpoints/*")
"""Where a run, or a sweep with its runs, writes in its folder; links there are checked. Deeper files have own names."""

KEPT_BY_OTHERS = ("wandb",)
"""Folders in which a logger links to its own files, and writes new ones."""


class NoModel(ValueError):
    """A run has left no model; the message quotes the error that it failed with."""


def is_ours(folder: Path) -> bool:
    """Whether a run or a sweep was begun in a folder; a user's files of the same names do not count."""
    run = Run(folder)
    overrides, command = run.noted_overrides(), folder / "command.txt"
    by_words = overrides is not None and all(isinstance(word, str) for word in overrides)
    by_command = re.match(r"tiryns\b", read_text(command)) is not None
    is_damaged = command.is_file() and (folder / "overrides.json").is_file()
    of_many = any((folder / name).is_file() for name in OF_SWEEPS)
    is_noted = of_many or by_words or by_command or is_damaged
    return is_noted or "state" in run.status or run.identity() is not None


def own_words(folder: Path) -> list[str]:
    """Returns the overrides of a run or a sweep that this user has typed; empty without this user's seal."""
    return _sealed_words(folder) or []


def is_sealed(folder: Path) -> bool:
    """Whether a run or a sweep has this user's seal: the user began it, or has resumed it with own overrides."""
    return _sealed_words(folder) is not None


def _sealed_words(folder: Path) -> list[str] | None:
    if not (sweep := read_sweep(folder)):
        return Run(folder).sealed_words()
    lists = (sweep.get("overrides"), sweep.get("hydra"))
    return sealed_words(sweep, [word for words in lists if isinstance(words, list) for word in words])


def check_links(folder: Path) -> None:
    """Raises ValueError if somebody else's folder has a link through which a run would write outside of the folder."""
    if is_sealed(folder):
        return
    here = Path(os.path.realpath(folder))  # which raises nothing for links in a circle
    links = (path for places in WRITTEN for path in folder.glob(places) if path.is_symlink())
    checked_links = (path for path in links if path.parent.name not in KEPT_BY_OTHERS)
    for path, target in ((path, Path(os.path.realpath(path))) for path in checked_links):
        if target.is_symlink() or not target.is_relative_to(here):
            where = "itself" if target.is_symlink() else f"{str(target)!r}, which a run would write to"
            raise ValueError(f"{str(path)!r} is a link to {where}: put a file or folder in its place")


def check_free(folder: Path) -> None:
    """Raises ValueError for a folder with files, unless a run or a sweep was begun in it or around it.

    Example:
        >>> check_free(Path("a/new/folder"))
    """
    if not folder.is_dir() or all(LEFT_EARLY.fullmatch(file.name) for file in folder.iterdir()):
        return
    if not any(map(is_ours, [folder, *folder.absolute().parents[:PARTS_OF_A_RUN]])):
        raise ValueError(
            f"the folder {str(folder)!r} holds files, and no run was begun there: a run would replace some. Name a new "
            "or an empty folder"
        )


def model_folder(name_or_path: str) -> str:
    """Returns the exported `model/` of a run folder (raises NoModel without one); any other name or path unchanged."""
    folder = Path(name_or_path)
    if (folder / "model").is_dir():
        return str(folder / "model")
    if status := Run(folder).status:
        why, finish = f"its state is {Run(folder).state!r}", "Finish it"
        if status.get("state") == "failed" and (error := status.get("error")):
            why, finish = f"{why}, as {error.splitlines()[0].rstrip('.')}", "Mend that and finish it"
        raise NoModel(
            f"there is no trained model in {name_or_path!r}: the run has left no model/: {why}. "
            f"{finish} with {resume_word(name_or_path)}, or name another run"
        )
    return name_or_path
