"""Signals in Lightning 2.6: its handlers communicate between the ranks at any moment, which can hang (Lightning#21406).

There is no setting that leaves them out. `fit_loop.epoch_loop` asks all ranks at each step whether one got SIGTERM.
"""

from lightning import Trainer


def leave_signals_alone(trainer: Trainer) -> None:
    """Turns off Lightning's signal handlers and its flag at every step; `runner.callbacks.Preemption` replaces both."""
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]
