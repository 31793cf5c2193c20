"""A run on disk: `Run` reads its folder; a missing or damaged file gives an empty value. Imports no torch."""

import math
import re
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from omegaconf import DictConfig

from tiryns.conf.registry import OPTIONS, closest_option
from tiryns.former import canonical
from tiryns.runner.run.command.failure import coded
from tiryns.runner.run.errors import without_samples
from tiryns.runner.run.files import meant_run, read_text
from tiryns.runner.run.recording import Recording
from tiryns.runner.run.yaml_files import flatten, parse_yaml, read_config, read_group

if TYPE_CHECKING:  # numpy takes longer than what most commands ask of a run
    from numpy.typing import NDArray

    from tiryns.runner.run.metrics_file import Series

MARKS = ("status.json", "metrics.csv", "config.yaml")
"""Any of these files marks the folder of a run."""

Settings = dict[str, Any]
"""Values by dotted name, such as `optimizer.lr`."""

_AT_STEP = re.compile(r"\bat step (\d+)\b")


class Branch(NamedTuple):
    """The run that another run branched from, and its checkpoint, such as `step-00000300`, if the user named one."""

    parent: Path
    checkpoint: str

    def __str__(self) -> str:
        return f"{Run(self.parent).name} {self.checkpoint}".rstrip()


class Run(Recording):
    """The run in a folder: its status, config, metrics and overrides, and what follows from them.

    Status, config and columns are read anew at each access; `settings`, `series` and `override_values` are read once.

    Example:
        >>> Run("outputs/2026-11-03/12-30-11-ab12").state
        'unknown'
    """

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.state}, step {self.status.get('step', 0)})"

    @property
    def results(self) -> dict[str, float]:
        """The final metrics by name, if they are numbers; empty before the end."""
        results = self.status.get("results") or {}
        return {
            k: float(v) for k, v in results.items() if isinstance(v, int | float) and not isinstance(v, bool)
        }

    @property
    def config(self) -> DictConfig:
        """The config without secrets, which `tiryns.run` trains anew; raises ValueError if it is missing or damaged."""
        config = read_config(self.path / "config.yaml")
        config.pop("resolved", None)  # the values of `auto`, which are no settings
        config.resume = None
        return config

    @cached_property
    def settings(self) -> Settings:
        """The values in `config.yaml` by dotted name, with the value of every `auto` under `resolved`."""
        try:
            config = parse_yaml(read_text(self.path / "config.yaml"))
        except Exception:  # cut off, or edited by hand
            return {}
        return {
            name: canonical(value) if name.endswith("_target_") and isinstance(value, str) else value
            for name, value in (flatten(config) if isinstance(config, dict) else ())
        }

    @property
    def command(self) -> str:
        """The command that started the run."""
        return read_text(self.path / "command.txt").strip()

    @property
    def known_overrides(self) -> list[str]:
        """The overrides; empty where they are lost."""
        with suppress(ValueError):
            return self.overrides()
        return []

    @cached_property
    def override_values(self) -> dict[str, str]:
        """The values of the overrides by the names of their settings; empty where they are lost."""
        words = [str(word).partition("=") for word in self.known_overrides]
        return {name.lstrip("+"): value for name, is_given, value in words if is_given}

    def has(self, name: str, value: str) -> bool:
        """Whether an override, or else a setting, has this value; `1e-3` equals `0.001`. A group has its option."""
        current: Any = self.override_values.get(name)
        if current is None:
            try:
                settings = read_group(self.path / "config.yaml", name.partition(".")[0])
            except (OSError, ValueError):
                return False
            current = dict(flatten(settings)).get(name)
            if value in OPTIONS.get(name, ()):
                current = closest_option(name, settings.get(name) or {})
        return current is not None and _plain(current) == _plain(value)

    def metrics(self) -> "dict[str, NDArray[Any]]":
        """Returns columns by name: `step`, `time` (seconds since 1970), and the logged metrics, NaN if missing.

        `pandas.DataFrame(run.metrics())` and `pyarrow.table(run.metrics())` make a table of the columns.
        """
        from tiryns.runner.run.metrics_file import read_table

        return read_table(self.path / "metrics.csv")

    @cached_property
    def series(self) -> "dict[str, Series]":
        """Each logged metric over the steps."""
        from tiryns.runner.run.metrics_file import read_metrics

        return read_metrics(self.path / "metrics.csv")

    def checkpoints(self) -> list[Path]:
        """Returns the run's checkpoints by step, the newest last, for `resume=` and `tiryns consolidate`."""
        return sorted(self.checkpoint_dir.glob("step-*.ckpt"))

    @property
    def step(self) -> int:
        """The last known step, from the status, the metrics, or the message of a failed run."""
        rows = [int(series.steps.max()) for series in self.series.values()]
        failure_steps = [int(number) for number in _AT_STEP.findall(self.failure)[:1]]
        return max([int(self.status.get("step") or 0), *rows, *failure_steps])

    @property
    def failure(self) -> str:
        """Why the run failed, in one line; empty if it did not fail."""
        message = without_samples(str(self.status.get("error") or "").strip())
        return message if self.state not in ("done", "running", "waiting") else ""

    @property
    def restarts(self) -> str | None:
        """How often ranks were restarted, and the reason for the last restart; None without restarts."""
        restarts = self.status.get("restarts")
        if not (isinstance(restarts, list) and restarts and isinstance(restarts[-1], dict)):
            return None
        step = restarts[-1].get("step")
        return f"{len(restarts)}, the last from step {step or 0}: {restarts[-1].get('cause')}"

    @property
    def branch(self) -> Branch | None:
        """The run and checkpoint that this run branched from; None for a run that began at step 0."""
        if not (parent := self.status.get("branched_from")):
            return None
        path = Path(str(parent)).resolve()
        is_checkpoint = path.parent.name == "checkpoints"
        return Branch(path.parents[1], path.stem) if is_checkpoint else Branch(path, "")

    @property
    def monitor(self) -> str | None:
        """The metric that chooses the best checkpoint, from the status, else from the config."""
        monitor = self.status.get("monitor") or self.settings.get("checkpoint.monitor")
        return None if monitor is None else str(monitor)

    @property
    def larger_is_better(self) -> bool:
        """Whether larger values of the monitored metric are better."""
        return (self.status.get("mode") or self.settings.get("checkpoint.mode")) == "max"

    def final(self, key: str) -> float | None:
        """Returns a final metric, else the last finite number logged under this name; None without either."""
        if key in (results := self.results):
            return results[key]
        values = self.series[key].values[::-1] if key in self.series else ()
        return next((float(value) for value in values if math.isfinite(value)), None)


def load_run(folder: Path) -> Run:
    """Opens a run folder; raises FileNotFoundError if it is missing, ValueError if it is not a run folder."""
    if not folder.is_dir():
        raise coded(
            "no_such_run", f"there is no run folder {str(folder)!r}{meant_run(folder)}", FileNotFoundError
        )
    if not any((folder / mark).is_file() for mark in MARKS):
        raise coded(
            "no_such_run",
            f"{str(folder)!r} is no run folder: it holds none of {', '.join(MARKS)}. "
            "Name a folder such as outputs/<date>/<time>-<id>",
        )
    return Run(folder)


def find_runs(folder: Path) -> list[Path]:
    """Returns the run folders inside a folder of runs, such as a sweep, in the order of their names; empty for a run."""
    if any((folder / mark).is_file() for mark in MARKS):
        return []
    folders = {file.parent for mark in MARKS for file in folder.glob(f"*/{mark}")}
    return sorted(folders, key=lambda path: (not path.name.isdecimal(), path.name.zfill(8)))


def runs_in(folder: Path) -> list[Run]:
    """Returns the run in a folder, or the runs in a folder of runs; raises as `load_run` does if there is none."""
    return [load_run(path) for path in find_runs(folder) or [folder]]


def _plain(value: Any) -> Any:
    """Returns a value as YAML reads it, numbers as floats: also `1e-3`, and `*.txt`, which is no YAML, as it stands."""
    read = value
    with suppress(yaml.YAMLError):
        read = yaml.safe_load(value) if isinstance(value, str) else value
    with suppress(TypeError, ValueError):
        return read if isinstance(read, bool) else float(read)
    return read
