"""Group `callback`: what watches the run. Options add up: `callback=[default,mine]` gives ours and yours."""

from dataclasses import dataclass
from typing import Any

from iolaus.conf.registry import register_parts
from iolaus.conf.values import AT_LEAST_0, COUNT, POSITIVE, Bounds, Choice, setting


@dataclass
class Throughput:
    """Counts real tokens per second over the last steps, evaluation and checkpoints left out, and the FLOPs they used."""

    _target_: str = "runner.callbacks.Throughput"
    window: int = setting(50, allowed=COUNT)
    """Steps that the figures are taken over."""
    peak_tflops: Any = setting(None, allowed=POSITIVE)
    """What one device could do, in TFLOP/s at the precision used, for `perf/mfu`; none takes it from a table of
    accelerators (half precision), and leaves the figure out where that has none."""


@dataclass
class Progress:
    """Progress on screen: a bar in a terminal, plain lines elsewhere."""

    _target_: str = "runner.callbacks.Progress"
    refresh_per_second: float = setting(4.0, allowed=POSITIVE)
    """Redraws of the bar per second at the most; each reads the loss from the device."""
    seconds_per_line: float = setting(10.0, allowed=POSITIVE)
    """Seconds between two lines where there is no terminal; each tenth of the run has its line anyway."""


@dataclass
class OrderAudit:
    """Notes a hash of every global batch in `order.txt`; `iolaus audit RUN RUN` compares two runs."""

    _target_: str = "runner.callbacks.OrderAudit"


@dataclass
class EarlyStopping:
    """Ends the run when the monitored metric has stopped getting better: `callback=[default,early_stopping]`."""

    _target_: str = "runner.callbacks.EarlyStopping"
    monitor: Any = "${checkpoint.monitor}"
    """A logged metric; that of the checkpoints, unless another one is named."""
    mode: Any = setting("${checkpoint.mode}", allowed=Choice(("min", "max")))
    """Whether the metric is better when small (`min`) or large (`max`); of another one it follows from the name."""
    patience: int = setting(3, allowed=COUNT)
    """Validations without improvement before the run ends."""
    min_delta: float = setting(0.0, allowed=AT_LEAST_0)
    """How much better counts as improvement."""


@dataclass
class ParameterGroups:
    """Prints the parameter groups at the start, and writes their names to `parameter_groups.json`."""

    _target_: str = "runner.callbacks.ParameterGroups"


@dataclass
class Divergence:
    """Ends a run whose loss has become far larger than it was in the beginning."""

    _target_: str = "runner.callbacks.Divergence"
    factor: float = setting(2.0, allowed=Bounds(1, open_low=True))
    """How many times the first median loss the last one must be."""
    window: int = setting(20, allowed=COUNT)
    """Steps that a median is taken over."""


@dataclass
class Plateau:
    """Says at each validation, and in the status, when the loss has not left the unigram entropy of the text."""

    _target_: str = "runner.callbacks.Plateau"


register_parts(
    "callback",
    together="default",
    throughput=Throughput,
    progress=Progress,
    audit=OrderAudit,
    groups=ParameterGroups,
    divergence=Divergence,
    plateau=Plateau,
)
register_parts("callback", early_stopping=EarlyStopping)
