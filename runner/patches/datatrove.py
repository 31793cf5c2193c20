"""One task of a datatrove executor: `PipelineExecutor.run` of datatrove 0.10 starts all tasks, in its own pool.

This project's pool keeps its processes between the stages, so it runs each task by the method that `run` itself calls.
"""

from typing import Any


def run_task(executor: Any, rank: int) -> None:
    """Runs one task of an executor in this process."""
    executor._run_for_rank(rank, local_rank=1)
