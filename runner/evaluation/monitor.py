"""The figure that names the best checkpoint: it follows from the labels, and is known before the first step.

Imports no torch.
"""

from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from iolaus.conf.registry import OPTIONS
from iolaus.runner.run.errors import suggest

SMALLER_IS_BETTER = ("loss", "mse", "perplexity", "bits_per_token", "bits_per_byte")
"""How the names of figures end that are errors; every other figure is better when large."""

MEASURED = ("finetuning", "vision_language")
"""Modules that are measured by metrics of their task, all of which are better when large."""


def better_when(figure: str) -> str:
    """`min` or `max`: whether a figure, such as `val/books/loss` or `accuracy`, is better small or large."""
    return "min" if figure.endswith(SMALLER_IS_BETTER) else "max"


def choose_monitor(config: DictConfig, module: Any, data: Any) -> None:
    """Fills in `checkpoint.monitor` and `.mode` where they are none, by the figures that validation will log.

    Callbacks that follow them (`callback.early_stopping`) do so too.

    Raises:
        ValueError: something else is to be monitored; the message lists the figures there are.
    """
    figures = expected_figures(config, module, data)
    checkpoint = config.checkpoint
    if "monitor" in checkpoint:
        if figures and checkpoint.monitor is None:
            checkpoint.monitor = figures[0]
        _check_monitor("checkpoint", checkpoint, figures)
    for name, node in (config.callback or {}).items():
        if isinstance(node, DictConfig) and "monitor" in node:
            if OmegaConf.is_interpolation(node, "mode") and node.monitor != checkpoint.get("monitor"):
                node.mode = None  # that of another figure
            _check_monitor(f"callback.{name}", node, figures)


def expected_figures(config: DictConfig, module: Any, data: Any) -> list[str]:
    """What validation logs, the figure that names the best checkpoint first; empty where none will be, or is known."""
    names = getattr(module, "figure_names", None)
    sets = getattr(data, "validation", None) if config.trainer.get("validate_every", 1) else None
    found = {name: names(sequences) for name, sequences in (sets or {}).items()} if names else {}
    if not all(found.values()):  # a model of the user's own does not tell
        return []
    return [f"val/{name}/{figure}" for name, figures in found.items() for figure in figures]


def _check_monitor(setting: str, node: DictConfig, figures: Sequence[str]) -> None:
    """Checks what a node monitors, and gives it a mode."""
    monitor = node.monitor
    if monitor is not None and figures and monitor not in figures:
        raise ValueError(
            f"{setting}.monitor={monitor} cannot be monitored: validation does not log it; there are: "
            f"{', '.join(figures)}" + suggest(str(monitor), figures)
        )
    if "mode" in node and node.mode is None:
        node.mode = better_when(monitor or "loss")


def direction_of(config: DictConfig) -> str:
    """`min` or `max`: which of a search's trials is the best, as far as the config of one tells before data is read."""
    checkpoint = config.checkpoint
    if checkpoint.get("mode"):
        return str(checkpoint.mode)
    if checkpoint.get("monitor"):
        return better_when(str(checkpoint.monitor))
    measured = {getattr(OPTIONS["module"][name], "_target_", None) for name in MEASURED}
    return "max" if config.module.get("_target_") in measured else "min"
