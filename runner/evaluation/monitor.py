"""The metric that chooses the best checkpoint, known before the first step, and its values. Imports no torch."""

import math
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from tiryns.conf.data.pretraining import MIXTURE
from tiryns.conf.registry import TASKS, better_when, option_of
from tiryns.conf.values import suggest
from tiryns.runner.protocols import RunData, RunModule

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

MIXED_LOSS = f"val/{MIXTURE}/loss"
"""The mean loss over a mixture's validation sets, weighted by each source's share in the tokens that are trained on."""


def choose_monitor(config: DictConfig, module: RunModule, data: RunData) -> None:
    """Fills in `checkpoint.monitor` and the modes of all monitors. Raises ValueError for a metric that is not logged."""
    sets = data.validation if config.trainer.get("validate_every", 1) else {}
    if len(sets) > 1:
        sets = {name: sequences for name, sequences in sets.items() if data.has_targets(sequences)} or sets
    names_by_set = {name: module.figure_names(sequences) for name, sequences in sets.items()}
    figures = [MIXED_LOSS] if data.validation_shares else []
    figures += [f"val/{name}/{figure}" for name, names in names_by_set.items() for figure in names]
    if not all(names_by_set.values()):  # a model of the user's own need not name its figures
        figures = []
    checkpoint = config.checkpoint
    if figures and "monitor" in checkpoint and checkpoint.monitor is None:
        checkpoint.monitor = figures[0]
    callbacks = {f"callback.{name}": node for name, node in (config.callback or {}).items()}
    for setting, node in {"checkpoint": checkpoint, **callbacks}.items():
        if not isinstance(node, DictConfig) or "monitor" not in node:
            continue
        if OmegaConf.is_interpolation(node, "mode") and node.monitor != checkpoint.get("monitor"):
            node.mode = None  # that of another figure
        monitor = node.monitor
        if monitor is not None and figures and monitor not in figures:
            raise ValueError(
                f"{setting}.monitor={monitor} cannot be monitored: validation does not log it; there are: "
                f"{', '.join(figures)}" + suggest(str(monitor), figures)
            )
        if "mode" in node and node.mode is None:
            node.mode = better_when(monitor or "loss")


def direction_of(config: DictConfig) -> str:
    """Returns whether a search's metric is best at its `min` or `max`, by a trial's config, before any data is read."""
    mode, monitor = config.checkpoint.get("mode"), config.checkpoint.get("monitor")
    if mode or monitor:
        return str(mode or better_when(str(monitor)))
    has_labels = config.data.get("task") is not None or option_of("objective", config.objective) in TASKS
    return "max" if has_labels else "min"


def monitored_metric(trainer: "Trainer", monitor: str | None, setting: str) -> tuple[str, float] | None:
    """Returns name and value of `monitor` (None: the first validation loss, if any); ValueError names what is logged."""
    metrics = trainer.callback_metrics
    losses = (name for name in metrics if name.startswith("val") and name.endswith("loss"))
    name = monitor or next(losses, None)
    if name is None:
        return None
    if name not in metrics:
        raise ValueError(f"{setting}.monitor={name} is not logged; there are: {', '.join(sorted(metrics))}")
    return name, float(metrics[name])


def loss_beside(trainer: "Trainer", name: str) -> float:
    """Returns the loss on the set of the metric `name`; infinity if the loss is not logged or not a number."""
    loss = float(trainer.callback_metrics.get(f"{name.rpartition('/')[0]}/loss", math.inf))
    return math.inf if math.isnan(loss) else loss
