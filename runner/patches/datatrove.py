"""One task of a datatrove executor: `PipelineExecutor.run` of datatrove 0.10 starts all of them, in its own pool.

Ours keeps its processes between the stages, so it runs task by task, by the method that `run` itself calls.
"""

from typing import Any


def run_task(executor: Any, rank: int) -> None:
    """Runs one task of an executor in this process."""
    executor._run_for_rank(rank, local_rank=1)
