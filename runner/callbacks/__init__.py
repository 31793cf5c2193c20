"""Lightning callbacks of a run.

- `progress`: the progress bar, or plain lines; `throughput`: tokens per second, MFU and CPU seconds.
- `stopping`: saves and stops on a signal; stops if a metric no longer improves, or after a number of steps; shows the
  agent of the node that this rank makes progress.
- `divergence`: stops or rewinds a run whose loss leaves its level (for a loss that is not a number, see
  `runner.modules.training`).
- `phases`: begins each phase of a run, and validates at its end.
- `groups`: shows the parameter groups at the start, and warns of a loss that stays at the unigram entropy.
- `suite`: evaluates the weights with a suite at regular steps, in the loop or as jobs of their own.
- `ladder`: measures activations for a ladder of widths, and records the prediction of a metric of a run.
- `manifest`: writes what the run is made of, digests of its weights, and the order audit.
"""

from tiryns.runner.callbacks.divergence import Divergence, taken_back
from tiryns.runner.callbacks.groups import ParameterGroups, Plateau
from tiryns.runner.callbacks.ladder import Coordinates, Prediction
from tiryns.runner.callbacks.manifest import Manifest, OrderAudit
from tiryns.runner.callbacks.phases import PhaseChanges
from tiryns.runner.callbacks.progress import Progress
from tiryns.runner.callbacks.stopping import EarlyStopping, Heartbeat, Preemption, StopAfter
from tiryns.runner.callbacks.suite import SuiteEvaluation
from tiryns.runner.callbacks.throughput import CpuTime, Throughput

__all__ = [
    "Coordinates", "CpuTime", "Divergence", "EarlyStopping", "Heartbeat", "Manifest", "OrderAudit",
    "ParameterGroups", "PhaseChanges", "Plateau", "Prediction", "Preemption", "Progress", "StopAfter",
    "SuiteEvaluation", "Throughput", "taken_back",
]  # fmt: skip
