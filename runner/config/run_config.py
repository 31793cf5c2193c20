"""The config of a run that is read or resumed: complete, and usable from any folder.

If a group is empty, or is a class of Lightning, the settings that the program reads are added. Relative paths are
resolved from the folder where a run was begun. A run is still the same if its data has moved to another path.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tiryns.conf.registry import OPTIONS, option_of
from tiryns.conf.trainer import Trainer
from tiryns.conf.values import NAMED, rules_of
from tiryns.runner.config.permissions import check_permissions
from tiryns.runner.manifest.inputs import data_files, data_places, read_manifest
from tiryns.runner.run.files import SWEEP, named_path, read_json, read_status, resume_word
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import own_words
from tiryns.runner.run.recording import config_hash, without_secrets
from tiryns.runner.run.yaml_files import read_config, settings_in

GROUPS = ("data", "model", "objective")
"""Groups with settings that name files."""

LIGHTNING = {
    "log_every": "log_every_n_steps",
    "validate_every": "val_check_interval",
    "validation_batches": "limit_val_batches",
}
"""Lightning's names for settings of our trainer."""

BATCHES = ["data", "objective", "sampler", "seed"]
"""Settings that decide the samples and the targets of a global batch."""

EMPTY = ("callback", "logger")
"""Groups that may be empty."""


def complete(config: DictConfig) -> DictConfig:
    """Returns a changeable copy of a config, which has every setting of our trainer.

    If Lightning has a setting under another name, its value is used. Other missing settings are as in `trainer=auto`.
    """
    copy = config.copy()
    OmegaConf.set_readonly(copy, False)
    OmegaConf.set_struct(copy, False)
    for group in EMPTY:
        if OmegaConf.is_missing(copy, group) or copy.get(group) is None:
            copy[group] = {}
    if option_of("trainer", copy.trainer) is None:
        defaults = asdict(Trainer())
        if "max_epochs" in copy.trainer:
            defaults["max_steps"] = -1
        for name, value in defaults.items():
            if name not in copy.trainer and name != "_target_":
                lightning_value = copy.trainer.get(LIGHTNING.get(name, name))
                copy.trainer[name] = value if lightning_value is None else lightning_value
    return copy


def begun_in(folder: Path) -> list[Path]:
    """Returns the existing folders, except the current one, from which relative paths of a run or sweep start.

    Those of a run's parents, and of the sweep of a job, are among them.

    For a run, folders where a new path of its data was typed come first (newest first), then the folder where it began.
    """
    folders: dict[Path, None] = {}
    seen: set[Path] = set()
    while (folder := folder.resolve()) not in seen:
        seen.add(folder)
        status = read_status(folder / "status.json")
        places = [(folder, place) for place in (*status.get("moved_in", ()), status.get("begun_in"))]
        places += [(sweep, read_json(sweep / SWEEP, {}).get("begun_in")) for sweep in (folder, folder.parent)]
        for base, place in places:
            match place:
                case [str(absolute), str(relative)]:
                    folders |= {Path(absolute): None, (base / relative).resolve(): None}
        if isinstance(parent := status.get("branched_from"), str):
            folder = Path(parent).parents[1] if parent.endswith(".ckpt") else Path(parent)
    return [place for place in folders if place.is_dir() and place != Path.cwd().resolve()]


def from_begin(config: DictConfig, folder: Path) -> DictConfig:
    """Returns the config; relative paths that do not exist here are resolved from the folder where the run was begun."""
    places = begun_in(folder)
    if not places:
        return config
    copy = config.copy()
    OmegaConf.set_readonly(copy, False)
    for group in GROUPS:
        if isinstance(node := copy.get(group), DictConfig):
            for inner, key, text in _paths_in(node, False):
                inner[key] = path_from(text, places)
    return copy


def recorded_config(folder: Path, words: Sequence[str]) -> DictConfig:
    """Returns the completed config of a run, with relative paths resolved from the folder where the run was begun.

    `words` are words that let code of others run, in addition to the words with which the user began the run.
    """
    config = read_config(folder / "config.yaml")
    check_permissions(config, [*own_words(folder), *words])
    return complete(from_begin(config, folder))


def with_data(config: DictConfig, folder: Path) -> DictConfig:
    """Returns the config as `from_begin` does; raises FileNotFoundError if files of the run's data are gone."""
    copy, had = from_begin(config, folder), (read_manifest(folder).get("inputs") or {}).get("files") or {}
    if not had or (run_config := config_of(Run(folder))) is None:
        return copy
    before = dict(data_places(settings_in(run_config.data, resolve=True)))
    for name, value in data_places(settings_in(copy.data, resolve=True)):
        same = name in had and isinstance(value, str) and value == before.get(name)
        if same and not _exists(Path(value.removeprefix("store:"))):
            places = ", ".join(map(str, [Path.cwd(), *begun_in(folder)]))
            begun = (read_status(folder / "status.json").get("begun_in") or ["an unknown folder"])[0]
            raise FileNotFoundError(
                f"the data that the run was begun with, data.{name}={value} in {begun}, is gone (looked in {places}); "
                f"if it lies elsewhere now, say where: tiryns {resume_word(folder)} data.{name}=NEW_PLACE"
            )
    return copy


def _paths_in(node: Any, inside: bool) -> Iterator[tuple[Any, Any, str]]:
    """Yields each text of a config that names a file: its node, its key, and the text."""
    for key in list(node) if isinstance(node, DictConfig) else range(len(node)):
        if OmegaConf.is_missing(node, key) or OmegaConf.is_interpolation(node, key):
            continue
        value, names_files = node[key], inside or key in path_settings()
        if OmegaConf.is_config(value):
            yield from _paths_in(value, names_files)
        elif names_files and isinstance(value, str) and key != "_target_":
            yield node, key, value


@cache
def path_settings() -> frozenset[str]:
    """Returns the names of settings that may hold a path.

    Example:
        >>> sorted({"source", "teacher", "max_length"} & path_settings())
        ['source', 'teacher']
    """
    options = (option for group in GROUPS for option in OPTIONS[group].values())
    rules = (rule for option in options for rule in rules_of(option).items())
    return frozenset(name for name, rule in rules if rule.get("allowed") == NAMED) | {"source", "validation"}


def path_from(text: str, places: list[Path]) -> str:
    """Returns a path, pattern or `PATH@SPLIT` below the first place that has it; unchanged if absolute or found here."""
    kind = "store:" if text.startswith("store:") else ""
    path = text.removeprefix(kind)
    if not path or "://" in path or path.startswith("~") or os.path.isabs(path) or _exists(Path(path)):
        return text
    return next((f"{kind}{place / path}" for place in places if _exists(place / path)), text)


def _exists(path: Path) -> bool:
    return os.path.exists(named_path(str(path))) or bool(glob(str(path), recursive=True))


def config_of(run: Run) -> DictConfig | None:
    """Returns the config that a run's folder holds, with every `auto` unresolved; None if it cannot be read."""
    try:
        return run.config
    except ValueError:
        return None


def is_moved(run: Run, config: DictConfig) -> bool:
    """Whether a config has the values of a run's `config.yaml`, except that the same data is at another path.

    Data is the same if its files have the digests of the run's manifest.
    """
    if (run_config := config_of(run)) is None:
        return False
    now = without_secrets(config)
    after, before = (dict(data_places(settings_in(one.data, resolve=True))) for one in (now, run_config))
    changes = {name: value for name, value in before.items() if name in after and after[name] != value}
    for name, value in changes.items():
        OmegaConf.update(now, f"data.{name}", value, merge=False)
    if config_hash(now) != config_hash(run_config):
        return False
    files = (read_manifest(run.path).get("inputs") or {}).get("files") or {}
    here = data_files(settings_in(without_secrets(config).data, resolve=True)) if changes else {}
    return all(_are_same(here.get(name), files.get(name)) for name in changes)


def has_batches_of(run: Run, config: DictConfig) -> bool:
    """Whether a config has the settings of global batches in a run's `config.yaml`; True if that cannot be read."""
    of_run = config_of(run)
    both = [of_run, without_secrets(config)] if of_run is not None else []
    return len({config_hash(OmegaConf.masked_copy(one, BATCHES)) for one in both}) < 2


def _are_same(files: Mapping[str, str] | None, others: Mapping[str, str] | None) -> bool:
    """Whether files have the same digests; a lone file may have another name."""
    if not files or not others:
        return False
    return files == others or (len(files) == len(others) == 1 and [*files.values()] == [*others.values()])
