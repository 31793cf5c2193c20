"""Data for evaluation alone: queries with their passages, minimal pairs of sentences, and tasks of mteb."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from tiryns.conf.data import pairs as options
from tiryns.conf.values import suggest
from tiryns.runner import log
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.evaluated import by_name
from tiryns.runner.data.labelled.finetuning import tokenizer_of
from tiryns.runner.data.labelled.words.annotations import file_of
from tiryns.runner.data.read.beir import read_beir
from tiryns.runner.data.read.opened import reading_of
from tiryns.runner.data.read.rows import Row, Rows, RowSource, read_rows


class RetrievalSet(NamedTuple):
    """The distinct queries and passages of a set, in the order of their first rows. In BEIR, their ids are distinct."""

    queries: list[str]
    passages: list[str]
    relevant: list[list[int]]
    """The numbers of the passages that belong to each query."""
    excluded_passages: list[list[int]]
    """The numbers of passages that are not ranked for a query: with its id in BEIR, else its text unless relevant."""
    grades: list[list[float]] | None = None
    """The grade of each relevant passage; None if all are equally relevant."""
    num_left_out: int = 0
    """The number of queries without a relevant passage."""


class RetrievalPairs:
    """Sets of queries and passages for `mode=probe`.

    Example: `tiryns mode=probe data=retrieval data.test=pairs.csv model=pretrained model.name_or_path=RUN`
    """

    sets: dict[str, RetrievalSet]
    """The sets by name, such as `test/test`; test sets come first."""
    tokenizer: PreTrainedTokenizerBase

    @takes_settings(options.Retrieval)
    def __init__(self, settings: options.Retrieval) -> None:
        self.settings, self.reading, self.max_length = settings, reading_of(settings), settings.max_length

    def prepare_data(self) -> None:
        """Reads every set. Raises ValueError for a row without query or passage, an unknown id, or no tokenizer."""
        settings, self.sets = self.settings, {}
        for part, prefix in (("test", "test"), ("validation", "val")):
            for name, source in by_name(getattr(settings, part), part).items():
                self.sets[f"{prefix}/{name}"] = self._read(source, part, f"data.{part} {name!r}")
        self.tokenizer = tokenizer_of(settings, self._texts)

    def _read(self, source: RowSource, part: str, setting: str) -> RetrievalSet:
        beir = read_beir(source, part)
        if beir is None:
            return self.pairs(read_rows(source, self.reading, part, setting))
        if count := len(beir.queries) - len(beir.grades):
            log.info("%s names no relevant passage for %d queries: they are left out", beir.qrels, count)
        numbers = {name: number for number, name in enumerate(beir.passages)}
        relevant = [[numbers[passage] for passage in judgements] for judgements in beir.grades.values()]
        grades = [list(judgements.values()) for judgements in beir.grades.values()]
        excluded_passages = [[numbers[query]] if query in numbers else [] for query in beir.grades]
        queries, passages = [beir.queries[query] for query in beir.grades], list(beir.passages.values())
        return RetrievalSet(queries, passages, relevant, excluded_passages, grades, count)

    def pairs(self, rows: Rows) -> RetrievalSet:
        """Returns the queries and passages of rows."""
        passages: dict[str, int] = {}
        relevant: dict[str, dict[int, None]] = {}  # the numbers of each query's passages, each once
        for row in rows.rows:
            query = row.text(self.settings.query_column, "data.query_column")
            passage = row.text(self.settings.passage_column, "data.passage_column")
            relevant.setdefault(query, {})[passages.setdefault(passage, len(passages))] = None
        own_texts = [[*{passages.get(query, -1)} - {-1, *numbers}] for query, numbers in relevant.items()]
        return RetrievalSet(list(relevant), list(passages), list(map(list, relevant.values())), own_texts)

    def _texts(self) -> list[str]:
        """Returns the texts to train a tokenizer on."""
        if self.settings.train is None:
            raise ValueError(
                "data.train names no pairs to train a tokenizer on, and the model has no tokenizer: set data.tokenizer "
                "or data.train"
            )
        pairs = self._read(self.settings.train, "train", "data.train")
        return [*pairs.queries, *pairs.passages]


class MinimalPair(NamedTuple):
    """The right sentence, the wrong one, and the phenomenon that they are about."""

    good: str
    bad: str
    phenomenon: str


class MinimalPairs:
    """Sets of pairs of similar sentences, one right and one wrong (BLiMP, arXiv 1912.00582), for `mode=probe`.

    Example: `tiryns mode=probe data=minimal_pairs data.test=blimp model=pretrained model.name_or_path=RUN`
    """

    sets: dict[str, list[MinimalPair]]
    """The sets by name, such as `test/test`."""

    @takes_settings(options.MinimalPairs)
    def __init__(self, settings: options.MinimalPairs) -> None:
        self.settings, self.reading = settings, reading_of(settings)

    def prepare_data(self) -> None:
        """Reads every set. Raises ValueError for a pair of the same sentences, or a row without one of them."""
        self.sets = {}
        for name, source in by_name(self.settings.test, "test").items():
            rows = read_rows(source, self.reading, "test", f"data.test {name!r}").rows
            self.sets[f"test/{name}"] = [self._pair(row, name) for row in rows]

    def _pair(self, row: Row, name: str) -> MinimalPair:
        settings = self.settings
        good = row.text(settings.good_column, "data.good_column")
        bad = row.text(settings.bad_column, "data.bad_column")
        if good == bad:
            raise ValueError(f"{row.where}: both sentences are {good!r:.80}")
        phenomenon = row.values.get(settings.phenomenon_column) or Path(file_of(row.where)).stem or name
        return MinimalPair(good, bad, str(phenomenon))


class MtebTasks:
    """Tasks of mteb for `mode=probe`.

    Example: `tiryns mode=probe data=mteb data.tasks=[STSBenchmark] model=pretrained model.name_or_path=RUN`
    """

    tasks: dict[str, Any]
    """The tasks by name."""
    tokenizer: PreTrainedTokenizerBase

    @takes_settings(options.Mteb)
    def __init__(self, settings: options.Mteb) -> None:
        self.settings, self.max_length = settings, settings.max_length

    def prepare_data(self) -> None:
        """Finds the tasks. Raises ImportError without mteb, ValueError for an unknown task or a missing tokenizer."""
        try:
            from mteb import AbsTask
        except ImportError as error:
            raise ImportError("data=mteb needs mteb: pip install 'tiryns[mteb]'") from error
        classes = {task.metadata.name: task for task in _below(AbsTask) if hasattr(task, "metadata")}
        for name in self.settings.tasks:
            if name not in classes:
                raise ValueError(f"data.tasks: mteb has no task {name!r}{suggest(name, classes)}")
        self.tasks = {name: classes[name]() for name in self.settings.tasks}
        if self.settings.tokenizer is None:
            raise ValueError("data=mteb has no texts to train a tokenizer on: set data.tokenizer")
        self.tokenizer = tokenizer_of(self.settings, tuple)


def _below(kind: Any) -> Iterator[Any]:
    """Yields the direct and indirect subclasses of a class."""
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _below(subclass)
