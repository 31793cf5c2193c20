"""Ranking: orders the candidates of a query by the scores of a cross-encoder, which reads query and candidate together.

- `objective`: lists as documents of a micro-batch, the scores of their candidates, and the losses of each list.
- `task`: the task, the reading of rows with grades in three forms as lists (`runner.data.labelled.lists`), its
  predictions and metrics, and its data module.
"""

from tiryns.runner.tasks.ranking.objective import RankingCollator
from tiryns.runner.tasks.ranking.task import RankingData

__all__ = ["RankingCollator", "RankingData"]
