"""Data sets of the Hugging Face hub, through `datasets`."""

from collections.abc import Mapping
from typing import Any


def load_hub(name: str, config: str | None, split: str | None, **options: Any) -> Any:
    """The split of a data set from `datasets.load_dataset`, or with None all splits by name.

    Raises FileNotFoundError if the hub lacks the name or cannot be reached, ValueError for a missing split.
    """
    from datasets import get_dataset_split_names, load_dataset

    if split is not None:
        options["split"] = split
    try:
        return load_dataset(name, config, **options)
    except Exception as error:  # connection, offline mode, unknown name, split or configuration
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if split is not None and "split" in reason.lower():
            known = ", ".join(get_dataset_split_names(name, config))
            raise ValueError(f"{name} has no split {split!r}; it has: {known}") from error
        raise FileNotFoundError(
            f"{name!r} is no file or folder here, and no data set that could be loaded from the hub ({reason}). "
            "Check the spelling and the connection; a configuration is written name:config, a split name@split"
        ) from error


def class_names(features: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """The class names of each column of integer classes, or of lists of them."""
    columns = {name: getattr(f, "feature", f) for name, f in (features or {}).items()}
    return {name: list(f.names) for name, f in columns.items() if getattr(f, "names", None)}
