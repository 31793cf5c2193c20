"""Ranking: orders the candidates of a query by the scores of a cross-encoder, which reads query and candidate together.

- `objective`: lists as documents of a micro-batch, the scores of their candidates, and the losses of each list.
- `task`: the task, its reader, which makes lists from rows in three formats (`runner.data.labelled.lists`), its
  predictions and metrics, and its data module.
"""

from tiryns.runner.tasks.ranking.objective import RankingCollator
from tiryns.runner.tasks.ranking.task import RankingData

__all__ = ["RankingCollator", "RankingData"]
