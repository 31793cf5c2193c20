"""What watches a run while it trains."""

from runner.callbacks.audit import OrderAudit
from runner.callbacks.progress import Progress
from runner.callbacks.throughput import Throughput

__all__ = ["OrderAudit", "Progress", "Throughput"]
