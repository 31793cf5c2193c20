"""Groups `callback` and `checkpoint`: what else happens as a run trains, when to save and what to keep."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from tiryns.conf.registry import register, register_parts
from tiryns.conf.values import AT_LEAST_0, COUNT, NAMED, POSITIVE, WHOLE_FROM_0, Bounds, Choice, setting


@dataclass
class Checkpoint:
    """Atomic checkpoints: `last.ckpt` always, `best.ckpt` by a validation metric."""

    _target_: str = setting("runner.checkpoints.Checkpoint", execution=True)
    every_steps: int = setting(500, allowed=WHOLE_FROM_0, execution=True)
    """Steps between two checkpoints; 0 saves at the end only."""
    every_minutes: Any = setting(10.0, allowed=AT_LEAST_0, execution=True)
    """Maximum minutes between two checkpoints, regardless of `every_steps`; none: no limit."""
    keep_last: int = setting(1, allowed=COUNT, execution=True)
    """How many of the newest periodic checkpoints stay on disk; if rewinds are on, up to two older ones too."""
    monitor: Any = None
    """Metric that chooses the best checkpoint, such as `val/validation/loss`. None: the task's metric on the first
    validation set: accuracy, micro-F1 (several labels), Spearman (numbers), F1 (entities, answers), else the loss.
    Ties go to the checkpoint with the smallest loss on the same set, then to the first."""
    mode: Any = setting(None, allowed=Choice(("min", "max")))
    """Whether a small (`min`) or large (`max`) metric is better; none derives it from the metric's name."""


@dataclass
class Throughput:
    """Logs tokens per second (without padding) and FLOPs as a share of the peak, without evaluations and checkpoints."""

    _target_: str = "runner.callbacks.Throughput"
    window: int = setting(50, allowed=COUNT)
    """Number of steps that the metrics are averaged over."""
    peak_tflops: Any = setting(None, allowed=POSITIVE)
    """Peak TFLOP/s of one device at the precision used, for `perf/mfu`; none looks it up in a table of accelerators."""


@dataclass
class CpuTime:
    """Logs at each validation how many CPU seconds the run has taken so far: `callback=[default,cpu_time]`."""

    _target_: str = "runner.callbacks.CpuTime"


@dataclass
class Progress:
    """Progress on screen: a bar in a terminal, plain lines elsewhere."""

    _target_: str = "runner.callbacks.Progress"
    refresh_per_second: float = setting(4.0, allowed=POSITIVE)
    """Most redraws of the bar per second; each reads the loss from the device."""
    seconds_per_line: float = setting(10.0, allowed=POSITIVE)
    """Seconds between two lines where there is no terminal; each tenth of the run prints one too."""


@dataclass
class OrderAudit:
    """Writes a hash of every global batch to `order.txt`; `tiryns audit RUN RUN` compares two runs."""

    _target_: str = "runner.callbacks.OrderAudit"


@dataclass
class Manifest:
    """Writes `manifest.json`: code, packages, machine, data and results by digest; `tiryns verify RUN` compares them."""

    _target_: str = "runner.callbacks.Manifest"
    every: int = setting(100, allowed=COUNT)
    """Steps between two digests of weights and optimizer state in `digests.txt`."""


@dataclass
class EarlyStopping:
    """Stops the run after `patience` validations without an improvement of more than `min_delta`.

    `monitor` is a logged metric, None for the loss of the first validation set; `mode` is `min` or `max`. All ranks see
    the same figures and stop together.

    Example: `tiryns callback=[default,early_stopping] callback.early_stopping.patience=3`
    """

    _target_: str = "runner.callbacks.EarlyStopping"
    monitor: Any = "${checkpoint.monitor}"
    """Logged metric to monitor; default: the monitored metric of the checkpoints."""
    mode: Any = setting("${checkpoint.mode}", allowed=Choice(("min", "max")))
    """Whether a small (`min`) or large (`max`) metric is better; derived from the name if `monitor` is changed."""
    patience: int = setting(3, allowed=COUNT)
    """Validations without improvement before the run ends."""
    min_delta: float = setting(0.0, allowed=AT_LEAST_0)
    """Smallest change that counts as improvement."""


@dataclass
class StopAfter:
    """Ends a run after `steps` steps; learning rates and sample order remain those of the whole run.

    Example: `tiryns callback=[default,stop_after] callback.stop_after.steps=100`
    """

    _target_: str = "runner.callbacks.StopAfter"
    steps: int = setting(MISSING, allowed=COUNT)
    """Number of steps after which the run ends."""


@dataclass
class ParameterGroups:
    """Prints the parameter groups at the start, and writes their names to `parameter_groups.json`."""

    _target_: str = "runner.callbacks.ParameterGroups"


@dataclass
class Divergence:
    """Ends a run whose loss has risen far above its level, or rewinds it and skips the batches that caused the rise."""

    _target_: str = "runner.callbacks.Divergence"
    action: str = setting("stop", allowed=Choice(("stop", "rewind")))
    """`stop` ends the run with one message; `rewind` goes back to the newest checkpoint before the batches at fault,
    and trains on without them."""
    factor: float = setting(2.0, allowed=Bounds(1, open_low=True))
    """For an alarm a median loss must exceed its level times this factor; the level is the lowest median so far."""
    sigmas: float = setting(6.0, allowed=AT_LEAST_0)
    """For an alarm a median must exceed the level by this many standard deviations of the noise of 128 losses."""
    window: int = setting(20, allowed=COUNT)
    """Number of steps whose losses make a median."""
    skip_before: int = setting(100, allowed=WHOLE_FROM_0)
    """Number of global batches before the batch of the alarm that a rewind also skips. It skips more if the loss had left
    its level earlier."""
    max_rewinds: int = setting(3, allowed=COUNT)
    """Maximum number of rewinds; the next alarm stops the run."""


@dataclass
class Plateau:
    """Warns after each validation past the warm-up in which no loss is well below its unigram entropy.

    `status.json` has the warning after each such validation; the log has the warning only from step 100 on.
    Example: `tiryns ~callback.plateau`
    """

    _target_: str = "runner.callbacks.Plateau"


@dataclass
class Suite:
    """Evaluates the weights with a suite as the run trains: `callback=[default,suite] callback.suite.suite=probe`."""

    _target_: str = "runner.callbacks.SuiteEvaluation"
    suite: str = setting("probe", allowed=NAMED)
    """Name of the suite, or a path to a YAML file."""
    every: int = setting(500, allowed=COUNT)
    """Steps between two evaluations; the last step counts too."""
    jobs: bool = False
    """Whether training continues during an evaluation; false: training waits. The evaluation runs in a separate process,
    or in jobs if `overrides` name a launcher."""
    overrides: list[str] = setting([])
    """Further arguments of the command `tiryns suite=...`, in quotation marks: `["suite.tasks=[docstrings]"]`."""


@dataclass
class Coordinates:
    """Logs after each step how far activations have moved; `tiryns ladder --coordinates` compares this between widths."""

    _target_: str = "runner.callbacks.Coordinates"


@dataclass
class Prediction:
    """A prediction of a metric of the run, made before it begins; `tiryns ladder --next` writes it."""

    _target_: str = "runner.callbacks.Prediction"
    figure: str = setting(MISSING, allowed=NAMED)
    """Name of the predicted metric."""
    value: float = MISSING
    """The predicted value."""
    low: float = MISSING
    """The lower end of the 95 % interval."""
    high: float = MISSING
    """The upper end of the 95 % interval."""


register_parts(
    "callback", together="default", throughput=Throughput, progress=Progress, audit=OrderAudit,
    manifest=Manifest, groups=ParameterGroups, divergence=Divergence, plateau=Plateau,
)  # fmt: skip
register_parts("callback", early_stopping=EarlyStopping, stop_after=StopAfter, suite=Suite, cpu_time=CpuTime)
register_parts("callback", coordinates=Coordinates, prediction=Prediction)
register("checkpoint", default=Checkpoint)
