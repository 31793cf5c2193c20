"""Group `data`, pairs: queries with passages or candidates to train on, and data that only `mode=probe` reads."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from tiryns.conf.data.common import Batching, Tables, Tokenizing, demonstration
from tiryns.conf.data.labelled import FinetuningData
from tiryns.conf.objective.contrastive import PairLoss
from tiryns.conf.registry import OPTIONS, TASKS, option_of, register
from tiryns.conf.values import NAMED, Bounds, Settings, check_of, setting


@dataclass
class PairsData(FinetuningData):
    """Pairs of texts that belong together, or with a score: `data=pairs data.train=train.jsonl`."""

    _target_: str = "runner.data.PairsData"
    task: str = "contrastive"
    train: Any = setting(MISSING, allowed=NAMED)
    """A file, folder (also of BEIR), glob, hub name, or a list of them; with a split: `path@split`, `name:config@split`.
    Or several sets by name, `{nli: a.csv, questions: b.csv}`: each global batch has rows of one set."""
    weights: Any = None
    """Shares of the global batches by name of the set, such as `{nli: 2, questions: 1}`; none: in proportion to rows."""
    text_column: str = "query"
    """Column of the query."""
    pair_column: str | None = "passage"
    """Column of the passage that belongs to the query."""
    negative_columns: Any = None
    """Columns of hard negatives, each with a text, a list of texts or its JSON: `negative`, `[negative_1,negative_2]`."""
    label_column: str | None = None  # type: ignore[assignment]
    """Column of the score of a pair, for `objective.loss=cosent` and `cosine`; none: no scores."""
    match_column: str | None = None
    """Column of an id: passages of rows with the same id are not negatives of each other."""
    query_prompt: str | None = None
    """Text that is put before each query; none: the query prompt of the sentence-transformers folder that the model
    begins with, if any."""
    passage_prompt: str | None = None
    """Text that is put before each passage and negative; none: the passage prompt of the model's folder, if any."""
    max_length: int = setting(128, allowed=Bounds(8, whole=True))
    """Longest passage in tokens; longer ones are cut off."""
    max_query_length: Any = setting(None, allowed=Bounds(8, whole=True))
    """Longest query in tokens; none: `max_length`."""
    micro_batch_tokens: Any = 4096


@demonstration("stdlib_pairs.StdlibRetrieval")
class StdlibPairs(PairsData):
    """The first paragraph of a docstring of the standard library as query, the rest of the docstring as passage."""


register("data", pairs=PairsData, stdlib_pairs=StdlibPairs)


def task_of(data: Settings, objective: Settings) -> Any:
    """Returns the task of data: for pairs the task of the pair objective, else `data.task`."""
    kind, learnt = option_of("data", data), option_of("objective", objective)
    for_pairs = learnt in TASKS and issubclass(OPTIONS["objective"][learnt], PairLoss)
    of_pairs = kind is not None and issubclass(OPTIONS["data"][kind], PairsData)
    return learnt if for_pairs and of_pairs else data.get("task")


@dataclass
class RankingData(FinetuningData):
    """Queries with graded candidates: `data=ranking data.train=train.jsonl`."""

    _target_: str = "runner.tasks.ranking.RankingData"
    task: str = "ranking"
    text_column: str = "query"
    """Column of the query."""
    choices_column: str = "passage"
    """Column of the candidates: a list, its JSON or text with `label_separator`. Or one candidate, a text, in each row:
    rows with the same query, or the same id if there is `id_column`, make one list."""
    label_column: str = "label"
    """Column of the grades, a list or one candidate's: 0 for irrelevant, above 0 for relevant candidates."""
    pair_column: str | None = None
    """Column of the relevant text, or of a list of them, instead of graded candidates."""
    negative_columns: Any = None
    """Columns of irrelevant texts, each a text, a list of texts or its JSON: `negative`, or `[negative_1,negative_2]`."""
    micro_batch_tokens: Any = 4096


@demonstration("stdlib_choices.StdlibRanking")
class StdlibRanking(RankingData):
    """Docstrings of the standard library, each with eight candidate modules: its own, others of its package, and more."""


register("data", ranking=RankingData, stdlib_ranking=StdlibRanking)


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
    """Column of the query; several rows with the same query give it several passages."""
    passage_column: str = "passage"
    """Column of a passage that belongs to the query; equal texts are one passage."""
    tokenizer: Any = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a tokenizer; none, for a model without a name, trains one on `train`."""
    max_length: int = setting(128, allowed=Bounds(8, whole=True))
    """Longest text in tokens; longer ones are cut off."""
    micro_batch_tokens: Any = 8192
    num_workers: int = 0


@demonstration("stdlib_pairs.StdlibRetrieval")
class StdlibRetrieval(Retrieval):
    """The first paragraph of a docstring of the standard library as query, the rest of the docstring as passage."""


register("data", retrieval=Retrieval, stdlib_retrieval=StdlibRetrieval)


@dataclass
class Mteb(Batching):
    """Tasks of mteb by name (needs `tiryns[mteb]`): `mode=probe data=mteb data.tasks=[STSBenchmark]`."""

    _target_: str = "runner.data.MtebTasks"
    tasks: list[str] = MISSING
    """Names of mteb's tasks, or of tasks in a module of yours that `imports` names. mteb downloads their data."""
    tokenizer: Any = setting("${oc.select:model.name_or_path,null}", allowed=NAMED)
    """Name or folder of a tokenizer; a model with random weights needs one."""
    max_length: int = setting(128, allowed=Bounds(8, whole=True))
    """Longest text in tokens; longer ones are cut off."""
    micro_batch_tokens: Any = 8192
    num_workers: int = 0


@dataclass
class MinimalPairs(Tables, Batching):
    """Pairs of a right and a wrong sentence, as BLiMP has them: `mode=probe data=minimal_pairs data.test=FOLDER`."""

    _target_: str = "runner.data.MinimalPairs"
    test: Any = setting(MISSING, allowed=NAMED)
    """A file, folder, glob, hub name, or a list of them; or several sets by name: `{blimp: FOLDER, supplement: FOLDER}`.
    The model should find the right sentence of each pair more likely."""
    good_column: str = "sentence_good"
    """Column of the right sentence."""
    bad_column: str = "sentence_bad"
    """Column of the wrong sentence."""
    phenomenon_column: str = "UID"
    """Column of a pair's phenomenon; if it is missing, each file is one. The accuracy is the mean over phenomena."""
    micro_batch_tokens: Any = 8192
    num_workers: int = 0


@dataclass
class StdlibMinimalPairs(MinimalPairs):
    """Comments of the standard library, each paired with a copy that has a wrong article, number or order of words."""

    test: Any = setting({"_target_": "runner.data.demo.stdlib_minimal_pairs.StdlibMinimalPairs"})


@check_of(MinimalPairs)
@check_of(Mteb)
@check_of(Retrieval)
def check_measured(data: Settings, config: Settings) -> None:
    """Raises ValueError if the mode is not `probe`, the only mode that reads this data."""
    if config["mode"] != "probe":
        problem = f"data={option_of('data', data)} is measured by mode=probe, and nothing trains on it"
        raise ValueError(problem)


register("data", mteb=Mteb, minimal_pairs=MinimalPairs, stdlib_minimal_pairs=StdlibMinimalPairs)
