"""The objective of ranking."""

from dataclasses import dataclass

from tiryns.conf.registry import register, register_task
from tiryns.conf.values import Choice, setting


@dataclass
class Ranking:
    """The order of a query's candidates, by one score of query and candidate read together."""

    _target_: str = "runner.tasks.ranking.RankingCollator"
    loss: str = setting("listwise", allowed=Choice(("listwise", "ranknet", "margin", "pointwise")))
    """`listwise`, the cross-entropy of a list's softmax, whose mass relevant candidates share by grade (ListNet); for
    each pair of a better and a worse candidate `ranknet`, the logistic loss, or `margin`, the squared difference of
    their margin to that of the grades (MarginMSE, arXiv 2010.02666); `pointwise`, the binary cross-entropy of each."""


register("objective", ranking=Ranking)
register_task("ranking", "tiryns.runner.tasks.ranking.task.Ranking")
