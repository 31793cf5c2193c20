"""Composes, trains and assembles from Python, as `import iolaus` offers it.

The program's own set-up of Hydra is restored afterwards. Errors of the user are exceptions with one message.
"""

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import version
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobStatus, run_job
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, flag_override

from iolaus.conf.fields import default_options
from iolaus.conf.registry import OPTIONS, option_of, own_options, target_of
from iolaus.runner import train
from iolaus.runner.cli.compose import compose as composed
from iolaus.runner.cli.compose import initialized
from iolaus.runner.cli.runs import all_runs
from iolaus.runner.config.checks import check_config
from iolaus.runner.config.permissions import check_permissions, on_command_line
from iolaus.runner.inference.opened_run import Run, open_run
from iolaus.runner.launch.resume import saved_overrides
from iolaus.runner.loop import assembly
from iolaus.runner.run.errors import explained
from iolaus.runner.run.signals import Stopped
from iolaus.runner.run.sweep_folder import quoted

Folder = str | Path


def compose(*overrides: str, config_dir: Folder | None = None) -> DictConfig:
    """The config of `iolaus train` with these overrides; `config_dir` holds options and recipes of your own.

    Raises:
        ValueError: there is no such option or setting, or a recipe sets what only the command line may.

    Example:
        >>> config = compose("experiment=diffusion", "optimizer=lion", "optimizer.lr=1e-4")
        >>> config.optimizer.lr, config.objective.num_steps
        (0.0001, 1000)
    """
    with explained(), _composing(config_dir), on_command_line(overrides):
        _check_words(overrides)
        config = composed(_replayed(overrides))
        check_permissions(config)
        with flag_override(config, ["struct", "readonly"], [False, False]):
            config.pop("hydra")
        return config


def run(*config: str | DictConfig, config_dir: Folder | None = None) -> Run:
    """Trains as `iolaus train` does, in a new run folder, and returns the run.

    One device trains in this process, several in processes of their own. Ctrl-C saves, stops, and raises
    KeyboardInterrupt.

    Args:
        config: Overrides, or a config of `compose` or of a run, also a changed one, and overrides that change it. The
            run folder notes the overrides that compose it.
        config_dir: A folder with options and recipes of your own.

    Raises:
        ValueError: the config is wrong, or something that it names is missing or damaged.
        TrainingFailure: training cannot go on, such as with a loss that is not a number.

    Example:
        >>> done = run("experiment=mlm", "trainer.max_steps=200")  # doctest: +SKIP
        >>> done.results["val/validation/loss"]  # doctest: +SKIP
        5.91
    """
    with explained(), _composing(config_dir):
        words: list[str] = []
        for given in config:
            words += [given] if isinstance(given, str) else overrides_of(given)
        flags = [f"--config-dir={config_dir}"] if config_dir is not None else []
        _check_words(words)
        with on_command_line(words), _command([*flags, *words]):
            whole = any(isinstance(given, DictConfig) for given in config)
            job = composed(words if whole else _replayed(words))
            if job.mode != "train":
                raise ValueError(f"mode={job.mode} trains nothing: that is for the command line")
            check_config(job)
            return _trained(job)


def assemble(config: DictConfig) -> assembly.Parts:
    """The parts of a run of this config, built and connected, for a loop of your own; data is tokenised into the cache.

    Raises:
        ValueError: the config is wrong, parts do not fit together, or data cannot be used.

    Example:
        >>> parts = assemble(compose("trainer.max_steps=100"))  # doctest: +SKIP
        >>> parts.data.train_batches(rank=0, num_ranks=1)[0]["weight"]  # doctest: +SKIP
        1023.0
    """
    with explained():
        check_config(config)
        filled = config.copy()  # `assembly` sets the monitor of the checkpoints
        OmegaConf.set_readonly(filled, False)
        return assembly.assemble(filled)


def runs(folder: Folder = "outputs") -> list[Run]:
    """Every run below a folder, jobs of sweeps included, the newest first; raises ValueError for a missing folder.

    Example:
        >>> [run.name for run in runs() if run.state == "done"]  # doctest: +SKIP
        ['2026-11-03/12-30-11-ab12']
    """
    with explained():
        return [Run(found.path) for found in reversed(all_runs(Path(folder)))]


def overrides_of(config: DictConfig) -> list[str]:
    """The overrides that compose a config: options, then settings that differ; ValueError if no overrides do."""
    wanted, default = _plain(config), _plain(composed([]))
    words: list[str] = []
    for group in (name for name in OPTIONS if "/" not in name):
        node = wanted.get(group)
        if isinstance(node, dict) and "_target_" in node and node != default[group]:
            words += _option_words(group, node)
    words += _differences(wanted, _plain(composed(words)))
    if differing := next(_differences(wanted, _plain(composed(words))), None):
        raise ValueError(f"no overrides, as a run notes them, give this config: {differing} would be lost")
    return words


def _option_words(group: str, node: dict[str, Any]) -> list[str]:
    """The overrides that choose the closest option of a group, or write out a component of the user's own."""
    if option_of(group, node) is None:
        return [f"~{group}", f"++{group}={_literal(node)}"]
    same = [name for name, option in OPTIONS[group].items() if target_of(option) == target_of(node)]
    chosen = min(same, key=lambda name: _distance(node, _plain(OmegaConf.structured(OPTIONS[group][name]))))
    return [f"{group}={chosen}"] if chosen != default_options()[group] else []


def _distance(node: dict[str, Any], base: dict[str, Any]) -> tuple[int, int]:
    """How many values are nodes in a config or an option alone, which no override changes; then all differences."""
    kinds = ((isinstance(node.get(name), dict), isinstance(value, dict)) for name, value in base.items())
    return sum(ours is not theirs for ours, theirs in kinds), len(list(_differences(node, base)))


def _differences(wanted: Mapping[str, Any], base: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The overrides that change a composed config `base` to `wanted`."""
    yield from (f"~{prefix}{name}" for name in base if name not in wanted)
    for name, value in wanted.items():
        key = f"{prefix}{name}"
        if name not in base:
            yield f"++{key}={_literal(value)}"
        elif isinstance(value, dict) and isinstance(base[name], dict) and value and base[name]:
            yield from _differences(value, base[name], f"{key}.")
        elif value != base[name] or isinstance(value, bool) is not isinstance(base[name], bool):
            yield f"{key}={_literal(value)}"


def _literal(value: Any) -> str:
    """A value in the grammar of Hydra's overrides."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_literal(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_literal, value))}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return quoted(value) if isinstance(value, str) else str(value)


def _plain(config: Any) -> dict[str, Any]:
    """The unresolved settings, without Hydra's own and the `resolved` values of a run."""
    values: Any = OmegaConf.to_container(config, resolve=False)
    return {name: value for name, value in values.items() if name not in ("hydra", "resolved")}


def _check_words(words: Sequence[str]) -> None:
    if flag := next((word for word in words if word.startswith("-")), None):
        raise ValueError(f"{flag!r} has no meaning here; give overrides such as optimizer.lr=1e-3")


def _replayed(words: Sequence[str]) -> list[str]:
    """The overrides of the run that `resume` names, then those given."""
    replayed = saved_overrides(list(words))
    if replayed[:1] == ["-m"]:
        raise ValueError("resume names a sweep: resume it on the command line, by iolaus train resume=...")
    return replayed


@contextmanager
def _composing(config_dir: Folder | None) -> Iterator[None]:
    """A context with Hydra initialized on our configs, which restores the program's own set-up of Hydra."""
    if config_dir is not None and not Path(config_dir).is_dir():
        raise ValueError(f"config_dir: there is no folder {str(config_dir)!r}")
    app, base, job = GlobalHydra.instance().hydra, version.getbase(), HydraConfig.instance().cfg
    try:
        with own_options(), initialized([Path(config_dir)] if config_dir is not None else []):
            yield
    finally:
        GlobalHydra.instance().hydra, HydraConfig.instance().cfg = app, job
        version.VersionBase.instance().version_base = base


@contextmanager
def _command(words: list[str]) -> Iterator[None]:
    """A context with the command line of these words, which a run notes in its folder."""
    before, sys.argv = sys.argv, ["iolaus", *words]
    try:
        yield
    finally:
        sys.argv = before


def _trained(config: DictConfig) -> Run:
    """Trains one job, as Hydra runs it."""
    context = HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=Callbacks(config))
    try:
        done = run_job(train.work, config, "hydra.run.dir", None, context, configure_logging=False)
    except Stopped as stopped:
        if stopped.number == signal.SIGINT:
            raise KeyboardInterrupt(str(stopped)) from None
        raise
    except SystemExit:  # a second Ctrl-C
        raise KeyboardInterrupt("interrupted") from None
    if done.status == JobStatus.FAILED:
        raise done._return_value  # the property would print as well
    return open_run(config.hydra.runtime.output_dir)
