"""Composes configs, trains runs and assembles their parts from Python: the functions of `import tiryns`.

The program's own set-up of Hydra is restored afterwards. Errors of the user are exceptions with one message.
"""

import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hydra import version
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobStatus
from omegaconf import DictConfig, OmegaConf, flag_override

from tiryns.conf.registry import own_options
from tiryns.former import unread_variables
from tiryns.runner import train
from tiryns.runner.cli.compose import compose as composed
from tiryns.runner.cli.compose import composing_words, initialize, overrides_of
from tiryns.runner.cli.runs import all_runs
from tiryns.runner.config.checks import check_config, check_run_dir
from tiryns.runner.config.permissions import check_permissions, on_command_line
from tiryns.runner.launch.resume import saved_overrides
from tiryns.runner.loop import assembly
from tiryns.runner.opened_run import OpenedRun, open_run
from tiryns.runner.patches.hydra.start import hydra_parser, run_composed
from tiryns.runner.run.errors import error_of, explain_errors
from tiryns.runner.run.signals import Stopped

Folder = str | Path


def compose(*overrides: str, config_dir: Folder | None = None) -> DictConfig:
    """Returns the config of `tiryns train` with these overrides; `config_dir` holds options and recipes of your own.

    Raises:
        ValueError: there is no such option or setting, or a recipe sets a setting that only the command line may set.

    Example:
        >>> config = compose("experiment=diffusion", "optimizer=lion", "optimizer.lr=1e-4")
        >>> config.optimizer.lr, config.objective.num_steps
        (0.0001, 1000)
    """
    with explain_errors(), _composing(config_dir, overrides) as (words, _), on_command_line(overrides):
        config = composed(words)
        check_permissions(config)
        with flag_override(config, ["struct", "readonly"], [False, False]):
            config.pop("hydra")
        return config


def run(*config: str | DictConfig, config_dir: Folder | None = None) -> OpenedRun:
    """Trains as `tiryns train` does, in a new run folder, and returns the run.

    One device trains in this process, several in processes of their own. Ctrl-C saves, stops, and raises
    KeyboardInterrupt.

    Args:
        config: Overrides; or a config from `compose` or from a run, which you may have edited, and overrides that
            change it. The run folder records overrides that compose the resulting config.
        config_dir: A folder with options and recipes of your own.

    Raises:
        ValueError: the config is wrong, or something that it names is missing or damaged.
        TrainingFailure: training cannot go on, such as with a loss that is not a number.

    Example:
        >>> done = run("experiment=mlm", "trainer.max_steps=200")  # doctest: +SKIP
        >>> done.results["val/validation/loss"]  # doctest: +SKIP
        5.91
    """
    whole = any(isinstance(part, DictConfig) for part in config)
    resume_words = [] if whole else [str(word) for word in config]
    with explain_errors(), _composing(config_dir, resume_words) as (all_overrides, folder):
        words = [w for part in config for w in ([part] if isinstance(part, str) else overrides_of(part))]
        flags = [f"--config-dir={folder}"] if folder is not None else []
        _check_words(words)
        sys.argv = ["tiryns", *flags, *words]
        with on_command_line(words):
            job = composed(words if whole else all_overrides)
            if job.mode not in ("train", "probe"):
                raise ValueError(f"mode={job.mode} trains nothing: use it on the command line")
            check_config(job)
            check_run_dir(job)
            try:
                result = run_composed(train.work, job)
            except Stopped as stopped:
                if stopped.number == signal.SIGINT:
                    raise KeyboardInterrupt(str(stopped)) from None
                raise
            except SystemExit:  # a second Ctrl-C
                raise KeyboardInterrupt("interrupted") from None
            if result.status == JobStatus.FAILED:
                raise error_of(result)
            return open_run(job.hydra.runtime.output_dir)


def assemble(config: DictConfig) -> assembly.Parts:
    """Builds and connects the parts of a run of this config, for a training loop of your own; caches tokenised data.

    Raises:
        ValueError: the config is wrong, parts do not fit together, or data cannot be used.

    Example:
        >>> parts = assemble(compose("trainer.max_steps=100"))  # doctest: +SKIP
        >>> parts.data.train_batches(rank=0, num_ranks=1)[0]["weight"]  # doctest: +SKIP
        1023.0
    """
    with explain_errors():
        check_config(config)
        copy = config.copy()  # `assembly` sets the monitor of the checkpoints
        OmegaConf.set_readonly(copy, False)
        return assembly.assemble(copy)


def runs(folder: Folder = "outputs") -> list[OpenedRun]:
    """Returns every run below a folder, jobs of sweeps included, newest first; raises ValueError for a missing folder.

    Example:
        >>> [run.name for run in runs() if run.state == "done"]  # doctest: +SKIP
        ['2026-11-03/12-30-11-ab12']
    """
    with explain_errors():
        return [OpenedRun(entry.path) for entry in reversed(all_runs(Path(folder)))]


def _check_words(words: Sequence[str]) -> None:
    for flag in (word for word in words if word.startswith("-")):
        advice = "as the command alone runs sweeps; give overrides such as seed=1"
        raise ValueError(f"{flag!r} has no meaning here, {advice}")


def _overrides_of(words: Sequence[str], config_dir: Folder | None) -> tuple[list[str], Folder | None]:
    """Returns the overrides of the run that `resume` names, followed by `words`; and the run's folder of configs."""
    _check_words(words)
    if not words:
        return [], config_dir
    flags = [f"--config-dir={config_dir}"] if config_dir is not None else []
    all_words = saved_overrides([*flags, *words], composing_words)
    if all_words[:1] == ["-m"]:
        raise ValueError("resume names a sweep: resume it on the command line, by tiryns train resume=...")
    arguments, overrides = hydra_parser().parse_known_args(all_words)
    if arguments.config_name or arguments.config_path:
        raise ValueError("resume names a run with its own main config: resume it by tiryns train resume=...")
    return [*arguments.overrides, *overrides], arguments.config_dir


@contextmanager
def _composing(
    config_dir: Folder | None, words: Sequence[str] = ()
) -> Iterator[tuple[list[str], Folder | None]]:
    """Lets Hydra read our configs in the block; yields the overrides, a resumed run's first, and their config folder."""
    if line := unread_variables(os.environ):
        warnings.warn(line, stacklevel=5)
    if config_dir is not None and not Path(config_dir).is_dir():
        raise ValueError(f"config_dir: there is no folder {str(config_dir)!r}")
    app, base, job = GlobalHydra.instance().hydra, version.getbase(), HydraConfig.instance().cfg
    command = sys.argv
    try:
        with own_options():
            all_overrides, folder = _overrides_of(words, config_dir)
            with initialize([Path(folder)] if folder is not None else []):
                yield all_overrides, folder
    finally:
        GlobalHydra.instance().hydra, HydraConfig.instance().cfg = app, job
        version.VersionBase.instance().version_base = base
        sys.argv = command
