"""Group `data`, ranking: queries with candidates, from files, the hub, or the standard library."""

from dataclasses import dataclass, field
from typing import Any

from tiryns.conf.data.common import demo_part
from tiryns.conf.data.labelled import FinetuningData
from tiryns.conf.registry import register


@dataclass
class RankingData(FinetuningData):
    """Queries with graded candidates: `data=ranking data.train=train.jsonl`."""

    _target_: str = "runner.tasks.ranking.RankingData"
    task: str = "ranking"
    text_column: str = "query"
    """Column of the query."""
    choices_column: str = "passage"
    """Column of the candidates: a list, its JSON or text with `label_separator`; or a text, which is one candidate:
    rows with the same query, or the same id if there is `id_column`, are one list."""
    label_column: str = "label"
    """Column of the grades of a list, or of the one candidate: 0, or more for a relevant one."""
    pair_column: Any = None
    """Column of the relevant text or a list of them, in the place of candidates with grades."""
    negative_columns: Any = None
    """Columns of the others, each with a text or a list of texts: `negative`, or `[negative_1,negative_2]`."""
    micro_batch_tokens: Any = 4096


@dataclass
class StdlibRanking(RankingData):
    """Docstrings of the standard library with eight modules: their own, others of its package, and others."""

    train: Any = field(default_factory=demo_part("stdlib_choices.StdlibRanking", "train"))
    validation: Any = field(default_factory=demo_part("stdlib_choices.StdlibRanking", "validation"))
    test: Any = field(default_factory=demo_part("stdlib_choices.StdlibRanking", "test"))


register("data", ranking=RankingData, stdlib_ranking=StdlibRanking)
