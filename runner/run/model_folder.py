"""The folder of a run as a user names it, and the exported model in it. Imports no torch."""

from pathlib import Path

from iolaus.runner.run.folder import RunFolder

TASK = "task.json"
"""In the model's folder: the task it was trained for, for `iolaus predict`."""

MARKS = ("status.json", "metrics.csv", "config.yaml")
"""Any of these files marks the folder of a run."""


def check_is_run(folder: Path) -> None:
    """Raises FileNotFoundError where there is no such folder, and ValueError where it is not that of a run."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no run folder {str(folder)!r}")
    if not any((folder / mark).is_file() for mark in MARKS):
        raise ValueError(
            f"{str(folder)!r} is no run folder: it holds none of {', '.join(MARKS)}. "
            "Name a folder such as outputs/<date>/<time>-<id>"
        )


def model_folder(name_or_path: str) -> str:
    """The exported `model/` of a run folder (ValueError without one); any other name or path as it is."""
    folder = Path(name_or_path)
    if (folder / "model").is_dir():
        return str(folder / "model")
    if state := RunFolder(folder).status().get("state"):
        raise ValueError(
            f"there is no trained model in {name_or_path!r}: the run has left no model/: its state is {state!r}. "
            f"Finish it with resume={name_or_path}, "
            "or name another run"
        )
    return name_or_path
