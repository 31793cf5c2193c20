"""What watches a run while it trains."""

from runner.callbacks.progress import Progress
from runner.callbacks.throughput import Throughput

__all__ = ["Progress", "Throughput"]
