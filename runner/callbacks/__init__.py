"""What watches a run while it trains."""

from iolaus.runner.callbacks.audit import OrderAudit
from iolaus.runner.callbacks.divergence import Divergence
from iolaus.runner.callbacks.early_stopping import EarlyStopping
from iolaus.runner.callbacks.groups import ParameterGroups
from iolaus.runner.callbacks.plateau import Plateau
from iolaus.runner.callbacks.preemption import Preemption
from iolaus.runner.callbacks.progress import Progress
from iolaus.runner.callbacks.throughput import Throughput

__all__ = [
    "Divergence",
    "EarlyStopping",
    "OrderAudit",
    "ParameterGroups",
    "Plateau",
    "Preemption",
    "Progress",
    "Throughput",
]
