"""A run folder as the pages read it: what is missing or damaged there is empty."""

import re
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from omegaconf import OmegaConf

from tiryns.former import canonical
from tiryns.runner.config.settings import flatten
from tiryns.runner.config.skipped import described_rewind, noted_rewinds
from tiryns.runner.report.summary import plateau_note, plateau_of
from tiryns.runner.run.errors import without_samples
from tiryns.runner.run.files import read_json, read_text
from tiryns.runner.run.folder import RunFolder
from tiryns.runner.run.metrics_file import Series, read_metrics
from tiryns.runner.run.model_folder import MARKS, check_is_run

EXECUTION = ("hydra.", "callback.", "logger.", "resume", "outputs")
"""Settings of how a run is shown and kept, which do not count as a difference between runs."""

RECIPE = "experiment"
"""The override that names a run's recipe, which its config does not tell."""

SCALE = "scale"
"""The override that names the size of the recipe."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Reads plain values alone; ten times as fast where libyaml is there."""

_AT_STEP = re.compile(r"\bat step (\d+)\b")

Settings = dict[str, Any]
"""Values by dotted name, such as `optimizer.lr`."""


class Branch(NamedTuple):
    """The run that another one branched from, and the checkpoint there, such as `step-00000300`, if it was named."""

    parent: Path
    checkpoint: str

    def __str__(self) -> str:
        return f"{RunFolder(self.parent).name} {self.checkpoint}".rstrip()


@dataclass(frozen=True)
class Run:
    """The contents of a run folder."""

    path: Path
    state: str
    """`running`, `done`, `failed`, `killed`, ... or `unknown`."""
    status: dict[str, Any]
    environment: dict[str, Any]
    command: str
    overrides: dict[str, str]
    config_text: str
    settings: Settings
    metrics: dict[str, Series]

    @property
    def name(self) -> str:
        """The last two parts of the path, such as `2026-11-03/12-30-11-ab12`."""
        return RunFolder(self.path).name

    @property
    def step(self) -> int:
        """The last step that is known: by the status, the metrics, or the message of a run that failed."""
        noted = self.status.get("step")
        rows = [int(series.steps.max()) for series in self.metrics.values()]
        told = _AT_STEP.search(self.failure)
        failed_at = [int(told[1])] if told else []
        return max([int(noted) if isinstance(noted, int | float) else 0, *rows, *failed_at])

    @property
    def restarts(self) -> str | None:
        """How often ranks were started again and why the last time, or None."""
        noted = self.status.get("restarts")
        if not (isinstance(noted, list) and noted and isinstance(noted[-1], dict)):
            return None
        step = noted[-1].get("step")
        return f"{len(noted)}, the last from step {step or 0}: {noted[-1].get('cause')}"

    @property
    def rewinds(self) -> str | None:
        """How often the run was taken back, and what was left out the last time, or None."""
        noted = noted_rewinds(self.path)
        return f"{len(noted)}, the last: {described_rewind(noted[-1])}" if noted else None

    @property
    def failure(self) -> str:
        """Why the run failed, in one line; empty where it did not."""
        return failure_in(self.state, self.status)

    @property
    def branch(self) -> "Branch | None":
        """Where it branched from another run; None for a run that began at step 0."""
        return branch_in(self.status)

    @property
    def results(self) -> dict[str, float]:
        """The figures at the end, those that are numbers."""
        noted = self.status.get("results")
        found = noted.items() if isinstance(noted, dict) else []
        return {str(k): float(v) for k, v in found if isinstance(v, int | float) and not isinstance(v, bool)}

    @property
    def monitor(self) -> str | None:
        """The figure that names the best checkpoint, by the status or else by the config."""
        found = self.status.get("monitor") or self.settings.get("checkpoint.monitor")
        return None if found is None else str(found)

    @property
    def larger_is_better(self) -> bool:
        """Whether that figure is better when large."""
        return (self.status.get("mode") or self.settings.get("checkpoint.mode")) == "max"

    @property
    def plateau(self) -> str | None:
        """The warning that no loss is well below its unigram entropy; None where one is."""
        return self.status.get("plateau") or plateau_of(self.results)

    @property
    def note(self) -> str:
        """The same in two or three words, for lists of runs."""
        return plateau_note(self.plateau)

    def final(self, key: str) -> float | None:
        """A figure at the end, else the last number logged under this name; None where neither is known."""
        if key in self.results:
            return self.results[key]
        values = self.metrics[key].values if key in self.metrics else np.zeros(0)
        finite = np.flatnonzero(np.isfinite(values))
        return float(values[finite[-1]]) if finite.size else None


def load_run(folder: Path) -> Run:
    """Reads a run folder; raises FileNotFoundError where it is not there, ValueError where it is not that of a run."""
    check_is_run(folder)
    text = read_text(folder / "config.yaml")
    overrides = (str(word).partition("=") for word in read_json(folder / "overrides.json", []))
    return Run(
        path=folder,
        state=RunFolder(folder).state(),
        status=read_json(folder / "status.json", {}),
        environment=read_json(folder / "environment.json", {}),
        command=read_text(folder / "command.txt").strip(),
        overrides={name.lstrip("+"): value for name, is_given, value in overrides if is_given},
        config_text=text,
        settings=_settings(text),
        metrics=read_metrics(folder / "metrics.csv"),
    )


def failure_in(state: str, status: dict[str, Any]) -> str:
    """Why a run of this state and status failed, in one line; empty where it did not."""
    message = without_samples(str(status.get("error") or "").strip())
    return message if state not in ("done", "running", "waiting") else ""


def branch_in(status: dict[str, Any]) -> Branch | None:
    """Where a run of this status branched from another one; None where it did not."""
    if not (noted := status.get("branched_from")):
        return None
    path = Path(str(noted)).resolve()
    named = path.parent.name == "checkpoints"
    return Branch(path.parents[1], path.stem) if named else Branch(path, "")


def find_runs(folder: Path) -> list[Path]:
    """The run folders inside a folder of runs (a sweep's), in the order of their names; none for a run."""
    if any((folder / mark).is_file() for mark in MARKS):
        return []
    found = {file.parent for mark in MARKS for file in folder.glob(f"*/{mark}")}
    return sorted(found, key=lambda path: (not path.name.isdecimal(), path.name.zfill(8)))


def changed_settings(
    settings: Settings, recipe: str | None = None, scale: str | None = None
) -> list[tuple[str, Any, Any]] | None:
    """(name, value, default) of every setting unlike its default, which a recipe and its scale may have set.

    None where the defaults, or those of the recipe, cannot be read.
    """
    try:
        defaults = _default_settings(recipe, scale)
    except Exception:  # an older run, or a plugin that is gone: the page does without this table
        return None
    unset = (None, None)  # a setting that only this run's config has
    return [
        (name, value, defaults.get(name, unset)[0])
        for name, value in settings.items()
        if not name.startswith((*EXECUTION, "resolved.")) and value not in defaults.get(name, unset)
    ]


@cache
def _default_settings(recipe: str | None = None, scale: str | None = None) -> dict[str, tuple[Any, Any]]:
    """Each default, with a recipe the value that it gives, resolved and as it stands.

    A run folder keeps lookups of the environment as they stand.
    """
    from hydra import compose, initialize_config_module
    from hydra.core.global_hydra import GlobalHydra

    import tiryns.conf  # noqa: F401  registers the groups
    from tiryns.runner.patches.hydra.plugins import plugins
    from tiryns.runner.patches.hydra.versions import VERSION_BASE

    plugins()
    running = GlobalHydra.instance().is_initialized()
    with nullcontext() if running else initialize_config_module("tiryns.conf", **VERSION_BASE):
        chosen = {RECIPE: recipe, SCALE: scale}
        config = compose("config", [f"{name}={value}" for name, value in chosen.items() if value])
    resolved = dict(flatten(OmegaConf.to_container(config, resolve=True)))
    raw = dict(flatten(OmegaConf.to_container(config, resolve=False)))
    return {name: (value, raw.get(name)) for name, value in resolved.items()}


def _settings(text: str) -> Settings:
    try:
        config = yaml.load(text, Loader=LOADER)
    except Exception:  # cut off, or edited by hand
        return {}
    return {
        name: canonical(value) if name.endswith("_target_") and isinstance(value, str) else value
        for name, value in (flatten(config) if isinstance(config, dict) else ())
    }
