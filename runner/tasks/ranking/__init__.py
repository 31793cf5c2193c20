"""Ranking: the candidates of a query by one score each, of a cross-encoder that reads query and candidate together.

- `objective`: lists as documents of a micro-batch, the scores of their candidates, and the losses of each list.
- `task`: the task, its rows with grades, in three forms, as lists (`runner.data.labelled.lists`), what is written of a
  list and measured, and its data module.
"""

from tiryns.runner.tasks.ranking.objective import RankingCollator
from tiryns.runner.tasks.ranking.task import RankingData

__all__ = ["RankingCollator", "RankingData"]
