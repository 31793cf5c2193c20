"""Checks the suites that a run evaluates its weights with (`callback=suite`). Imports no torch."""

import shlex
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from tiryns.conf.registry import option_of
from tiryns.runner.config.permissions import is_own
from tiryns.runner.config.reach import keys_that_run_code, reaches
from tiryns.runner.run.command.words import literal
from tiryns.runner.run.files import read_sweep
from tiryns.runner.sweeps.suite.definition import chosen_tasks, load_suite
from tiryns.runner.sweeps.suite.words import as_sweep, values_of

GIVEN = ("model", "seeds", "resume", "outputs", "suite", "hydra.sweep.dir", "hydra/sweeper", "mode")
"""Words of a suite's command that the callback gives, or that make another command of it."""


def check_evaluations(config: DictConfig, folder: Path) -> None:
    """Raises ValueError where a callback of a run in `folder` names no suite, or a wrong task or word."""
    nodes: Any = (config.get("callback") or {}) if config.mode == "train" else {}  # none with callback=[]
    for name, node in nodes.items():
        if node is None or option_of("callback", node) != "suite":
            continue
        if read_sweep(folder.parent).get("sweeper") == "suite":
            raise ValueError(f"callback.{name}: this run is a job of a suite itself; leave the callback out")
        check_words(key := f"callback.{name}.overrides", list(node.overrides), is_own(config, key))
        words = as_sweep([f"suite={node.suite}", *node.overrides])
        given = {word.partition("=")[0]: word for word in words}
        named = {field: given.get(f"hydra.sweeper.{field}") for field in ("tasks", "data", "source")}
        found = {field: values_of(word) for field, word in named.items() if word}
        if GlobalHydra.instance().is_initialized():
            single = {field: values[0] for field, values in found.items() if field != "tasks"}
            suite = load_suite(str(node.suite), GlobalHydra.instance().config_loader(), **single)
            chosen_tasks(suite, found.get("tasks", list(suite.tasks)))


def check_words(setting: str, words: list[str], typed: bool = True) -> None:
    """Raises ValueError for words that the command of an evaluation may not have, or has from a recipe and not `typed`.

    Example:
        >>> check_words("callback.suite.overrides", ["suite.tasks=[docstrings]", "hydra/launcher=slurm"])
    """
    for word in words:
        name = word.partition("=")[0].lstrip("+~")
        if name in GIVEN or "=" not in word:
            raise ValueError(
                f"{setting}: {word!r} does not count there; expected settings of a suite, of its launcher or its jobs, "
                "such as 'suite.tasks=[docstrings]'"
            )
        if name in keys_that_run_code() or name.startswith("hydra.job.env_set"):
            raise ValueError(
                f"{setting}: {name} lets code of others run: it counts on the command line alone; that of the run "
                "holds for its suites too"
            )
        # the suite's command would take it for one that is typed
        if not typed and ("${" in word or reaches(word)):
            raise ValueError(
                f"{setting}: {word!r} reaches outside of the run: it counts on the command line, not in a recipe. To "
                f"allow it, give it there: {shlex.quote(f'{setting}={literal(words)}')}"
            )
