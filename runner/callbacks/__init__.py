"""Lightning callbacks of a run.

- `progress`, `display`: the progress bar, or plain lines; `throughput`: tokens per second, MFU and CPU
  seconds.
- `preemption`: stops on a signal, with a checkpoint; `early_stopping`: stops when a metric no longer improves, or after
  so many steps.
- `heartbeat`: tells the agent of the node that this rank makes progress.
- `divergence`: stops or takes back a run whose loss diverges, by the rule of `loss_level`.
- `plateau`: warns of a loss that stays at the unigram entropy.
- `phases`: begins each phase of a run, and validates at its end.
- `groups`: shows the parameter groups at the start.
- `suite`: evaluates the weights with a suite every so many steps, in the loop or as jobs of their own.
- `manifest`: writes what the run is made of, digests of its weights, and the order audit.
"""

from iolaus.runner.callbacks.divergence import Divergence, taken_back
from iolaus.runner.callbacks.early_stopping import EarlyStopping, StopAfter
from iolaus.runner.callbacks.groups import ParameterGroups
from iolaus.runner.callbacks.heartbeat import Heartbeat
from iolaus.runner.callbacks.manifest import Manifest, OrderAudit
from iolaus.runner.callbacks.phases import PhaseChanges
from iolaus.runner.callbacks.plateau import Plateau
from iolaus.runner.callbacks.preemption import Preemption
from iolaus.runner.callbacks.progress import Progress
from iolaus.runner.callbacks.suite import SuiteEvaluation, evaluate_at_end
from iolaus.runner.callbacks.throughput import CpuTime, Throughput

__all__ = [
    "CpuTime",
    "Divergence",
    "EarlyStopping",
    "Heartbeat",
    "Manifest",
    "OrderAudit",
    "ParameterGroups",
    "PhaseChanges",
    "Plateau",
    "Preemption",
    "Progress",
    "StopAfter",
    "SuiteEvaluation",
    "Throughput",
    "evaluate_at_end",
    "taken_back",
]
