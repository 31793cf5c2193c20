"""Group `callback`: what watches the run. Options add up: `callback=[default,mine]` gives ours and yours."""

from dataclasses import dataclass

from hydra.core.config_store import ConfigStore

from .registry import OPTIONS


@dataclass
class Throughput:
    """Counts real tokens per second over the last steps, evaluation and checkpoints left out."""

    _target_: str = "runner.callbacks.Throughput"
    window: int = 50
    """Steps that the figures are taken over."""


@dataclass
class Progress:
    """Progress on screen: a bar in a terminal, plain lines elsewhere."""

    _target_: str = "runner.callbacks.Progress"
    refresh_per_second: float = 4.0
    """Redraws of the bar per second at the most; each reads the loss from the device."""
    seconds_per_line: float = 10.0
    """Seconds between two lines where there is no terminal; each tenth of the run has its line anyway."""


def _register(**options: type) -> None:
    """Registers each callback as a mapping of one name, and all of them together as `default`."""
    for name, node in options.items():
        OPTIONS.setdefault("callback", {})[name] = node
        ConfigStore.instance().store(group="callback", name=name, node={name: node}, provider="iolaus")
    ConfigStore.instance().store(group="callback", name="default", node=dict(options), provider="iolaus")


_register(throughput=Throughput, progress=Progress)
