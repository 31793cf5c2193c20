"""Group `data`, measured alone: queries with passages, which `mode=probe` reads."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from tiryns.conf.data.common import Batching, Tokenizing, demo_part
from tiryns.conf.data.tables import Tables
from tiryns.conf.registry import register
from tiryns.conf.values import NAMED, Bounds, setting


@dataclass
class Retrieval(Tables, Tokenizing, Batching):
    """Queries, each with a passage that belongs to it: `mode=probe data=retrieval data.test=pairs.csv`."""

    _target_: str = "runner.data.RetrievalPairs"
    test: Any = setting(MISSING, allowed=NAMED)
    """A file, folder, glob, hub name, or a list of them; a folder of BEIR, whose split is `test`, or `FOLDER@split`; or
    several sets by name: `{easy: a.csv, hard: b.csv}`. All passages of a set are ranked for each of its queries."""
    validation: Any = setting(None, allowed=NAMED)
    """Further sets, like `test`."""
    train: Any = setting(None, allowed=NAMED)
    """Pairs to train a tokenizer on, like `test`, for a model without one."""
    query_column: str = "query"
    """Column of the query; rows with the same one name several passages for it."""
    passage_column: str = "passage"
    """Column of a passage that belongs to it; the same text is one passage."""
    tokenizer: Any = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a tokenizer; none, for a model without a name, trains one on `train`."""
    max_length: int = setting(128, allowed=Bounds(8, whole=True))
    """Longest text in tokens; longer ones are cut off."""
    micro_batch_tokens: Any = 8192
    num_workers: int = 0


@dataclass
class StdlibRetrieval(Retrieval):
    """The first paragraph of a docstring of the standard library as query, what follows it as passage."""

    test: Any = field(default_factory=demo_part("stdlib_pairs.StdlibRetrieval", "test"))
    validation: Any = field(default_factory=demo_part("stdlib_pairs.StdlibRetrieval", "validation"))
    train: Any = field(default_factory=demo_part("stdlib_pairs.StdlibRetrieval", "train"))


register("data", retrieval=Retrieval, stdlib_retrieval=StdlibRetrieval)
