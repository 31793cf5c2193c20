"""Signals, plugins and half precision in Lightning 2.6.

Lightning's signal handlers communicate between the ranks at any moment, which can hang (Lightning#21406). No setting
turns them off: `fit_loop.epoch_loop` asks all ranks at each step whether one got SIGTERM. For each Trainer, Lightning
reads the metadata of all installed packages. Half precision converts all that a batch holds.
"""

from contextlib import nullcontext
from functools import lru_cache
from importlib.metadata import entry_points

from lightning import Trainer
from lightning.fabric.utilities import registry
from lightning.pytorch.plugins import HalfPrecision


def keep_plugins() -> None:
    """Lets Lightning search installed packages for callbacks of every Trainer only once in a process."""
    if registry.entry_points is entry_points:
        registry.entry_points = lru_cache(entry_points)  # type: ignore[assignment]


def leave_signals_alone(trainer: Trainer) -> None:
    """Turns off Lightning's signal handlers and its flag at every step; `runner.callbacks.Preemption` replaces both."""
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]


def keep_batches_whole(trainer: Trainer) -> None:
    """Keeps the labels and weights of batches, sums of losses and new positions out of half precision."""
    if isinstance(plugin := trainer.precision_plugin, HalfPrecision):
        plugin.convert_input = lambda data: data  # type: ignore[method-assign]
        plugin.forward_context = nullcontext  # type: ignore[method-assign, assignment]
