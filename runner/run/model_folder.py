"""The exported model of a run, where it is named by the folder of its run. Imports no torch."""

from pathlib import Path

from iolaus.runner.run.folder import RunFolder

TASK = "task.json"
"""In the model's folder: the task it was trained for, for `python -m runner.predict`."""


def model_folder(name_or_path: str) -> str:
    """The exported `model/` of a run folder; any other name or path as it is.

    Raises:
        ValueError: it is the folder of a run that has left no model.
    """
    folder = Path(name_or_path)
    if (folder / "model").is_dir():
        return str(folder / "model")
    if state := RunFolder(folder).status().get("state"):
        raise ValueError(
            f"the run {name_or_path!r} has left no model/: its state is {state!r}. Finish it with resume={name_or_path}, "
            "or name another run"
        )
    return name_or_path
