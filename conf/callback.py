"""Group `callback`: what watches the run. Options add up: `callback=[default,mine]` gives ours and yours."""

from dataclasses import dataclass, field, fields

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


@dataclass
class Default:
    """What every run has."""

    throughput: Throughput = field(default_factory=Throughput)
    """Counts tokens per second."""
    progress: Progress = field(default_factory=Progress)
    """Shows how far the run is."""


def _register(**options: type) -> None:
    """Registers each option as a mapping of named callbacks: mappings merge where a list is chosen."""
    for name, node in options.items():
        parts = {f.name: f.default_factory for f in fields(node)} if node is Default else {name: node}
        OPTIONS.setdefault("callback", {})[name] = node
        ConfigStore.instance().store(group="callback", name=name, node=parts, provider="iolaus")


_register(default=Default, throughput=Throughput, progress=Progress)
