"""What watches a run while it trains."""

from runner.callbacks.audit import OrderAudit
from runner.callbacks.divergence import Divergence
from runner.callbacks.early_stopping import EarlyStopping
from runner.callbacks.groups import ParameterGroups
from runner.callbacks.plateau import Plateau
from runner.callbacks.preemption import Preemption
from runner.callbacks.progress import Progress
from runner.callbacks.throughput import Throughput

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
