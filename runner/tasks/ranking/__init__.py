"""Ranking: the candidates of a query by one score each, of a cross-encoder that reads query and candidate together.

- `lists`: what a list of candidates is in rows and tokens; `reader`: rows with grades.
- `objective`: lists as documents of a micro-batch; `losses`: listwise, pairwise and pointwise.
- `model`: scores of all candidates, and the loss of each list.
- `choices`: lists in one row of which one candidate is right, which are multiple choice.
- `task`: the two tasks, what is written of a list and measured, and the data module of ranking.
"""

from tiryns.runner.tasks.ranking.objective import MultipleChoiceCollator, RankingCollator
from tiryns.runner.tasks.ranking.task import RankingData

__all__ = ["MultipleChoiceCollator", "RankingCollator", "RankingData"]
