"""Group `data`, pairs: queries with passages, hard negatives or scores, from files, the hub, or the standard library."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from tiryns.conf.data.common import demo_part
from tiryns.conf.data.labelled import FinetuningData
from tiryns.conf.registry import register
from tiryns.conf.values import NAMED, Bounds, setting


@dataclass
class PairsData(FinetuningData):
    """Pairs of texts that belong together, or with a score: `data=pairs data.train=train.jsonl`."""

    _target_: str = "runner.data.PairsData"
    task: str = "contrastive"
    train: Any = setting(MISSING, allowed=NAMED)
    """A file, folder, also of BEIR, glob, hub name, or a list of them; with a split: `path@split`, `name:config@split`.
    Or several sets by name, `{nli: a.csv, questions: b.csv}`: each global batch is of one of them."""
    weights: Any = None
    """Shares of the global batches by name of the set, such as `{nli: 2, questions: 1}`; none goes by their rows."""
    text_column: str = "query"
    """Column of the query."""
    pair_column: Any = "passage"
    """Column of the passage that belongs to it."""
    negative_columns: Any = None
    """Columns of hard negatives, each with a text or a list of texts: `negative`, or `[negative_1,negative_2]`."""
    label_column: Any = None
    """Column of the score of a pair, for `objective.loss=cosent` and `cosine`; none reads none."""
    match_column: Any = None
    """Column of an id: passages of rows with the same id are no negatives of each other."""
    query_prompt: str | None = None
    """Text that is put before each query; none is that of the folder of sentence-transformers that the model begins with,
    if there is one."""
    passage_prompt: str | None = None
    """Text that is put before each passage and negative, likewise."""
    max_length: int = setting(128, allowed=Bounds(8, whole=True))
    """Longest passage in tokens; longer ones are cut off."""
    max_query_length: Any = setting(None, allowed=Bounds(8, whole=True))
    """Longest query in tokens; none takes `max_length`."""
    micro_batch_tokens: Any = 4096


@dataclass
class StdlibPairs(PairsData):
    """The first paragraph of a docstring of the standard library as query, what follows it as passage."""

    train: Any = field(default_factory=demo_part("stdlib_pairs.StdlibRetrieval", "train"))
    validation: Any = field(default_factory=demo_part("stdlib_pairs.StdlibRetrieval", "validation"))
    test: Any = field(default_factory=demo_part("stdlib_pairs.StdlibRetrieval", "test"))


register("data", pairs=PairsData, stdlib_pairs=StdlibPairs)
