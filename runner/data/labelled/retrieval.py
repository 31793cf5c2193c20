"""Queries with the passages that belong to them, by set."""

import logging
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from tiryns.conf.data import retrieval as options
from tiryns.runner.config.settings import takes_settings
from tiryns.runner.data.evaluated import by_name
from tiryns.runner.data.labelled.examples import text_of
from tiryns.runner.data.labelled.finetuning import tokenizer_of
from tiryns.runner.data.read.beir import read_beir
from tiryns.runner.data.read.opened import reading_of
from tiryns.runner.data.read.rows import Rows, read_rows

log = logging.getLogger("tiryns")


class RetrievalSet(NamedTuple):
    """The distinct queries and passages of a set, in the order of their first rows; of BEIR each id is one."""

    queries: list[str]
    passages: list[str]
    relevant: list[list[int]]
    """The numbers of the passages that belong to each query."""
    grades: list[list[float]] | None = None
    """How relevant each of them is; None if all are alike."""
    excluded: list[int] | None = None
    """The number of the passage with a query's own id, which is not ranked for it, -1 for none; None for no ids."""
    left_out: int = 0
    """Queries without a relevant passage."""


class RetrievalPairs:
    """Sets of queries and passages for `mode=probe`.

    Example: `tiryns mode=probe data=retrieval data.test=pairs.csv model=pretrained model.name_or_path=RUN`
    """

    sets: dict[str, RetrievalSet]
    """By name, `test/test` first."""
    tokenizer: PreTrainedTokenizerBase

    @takes_settings(options.Retrieval)
    def __init__(self, settings: options.Retrieval) -> None:
        self.settings, self.reading, self.max_length = settings, reading_of(settings), settings.max_length

    def prepare_data(self) -> None:
        """Reads every set. Raises ValueError for rows without a query or a passage, unknown ids, or no tokenizer."""
        given, self.sets = self.settings, {}
        for part, prefix in (("test", "test"), ("validation", "val")):
            for name, source in by_name(getattr(given, part), part).items():
                self.sets[f"{prefix}/{name}"] = self._read(source, part, f"data.{part} {name!r}")
        self.tokenizer = tokenizer_of(given, self._texts)

    def _read(self, source: Any, part: str, setting: str) -> RetrievalSet:
        found = read_beir(source, part)
        if found is None:
            return self.pairs(read_rows(source, self.reading, part, setting))
        if left_out := len(found.queries) - len(found.grades):
            log.info("%s names no relevant passage for %d queries: they are left out", found.qrels, left_out)
        numbers = {name: number for number, name in enumerate(found.passages)}
        relevant = [[numbers[passage] for passage in own] for own in found.grades.values()]
        grades = [list(own.values()) for own in found.grades.values()]
        excluded = [numbers.get(query, -1) for query in found.grades]
        queries, passages = [found.queries[query] for query in found.grades], list(found.passages.values())
        return RetrievalSet(queries, passages, relevant, grades, excluded, left_out)

    def pairs(self, rows: Rows) -> RetrievalSet:
        """The queries and passages of rows."""
        queries: dict[str, int] = {}
        passages: dict[str, int] = {}
        relevant: list[list[int]] = []
        for row in rows.rows:
            query = text_of(row, self.settings.query_column, "data.query_column")
            passage = text_of(row, self.settings.passage_column, "data.passage_column")
            number = passages.setdefault(passage, len(passages))
            if (place := queries.setdefault(query, len(queries))) == len(relevant):
                relevant.append([])
            if number not in relevant[place]:
                relevant[place].append(number)
        return RetrievalSet(list(queries), list(passages), relevant)

    def _texts(self) -> list[str]:
        """Texts to train a tokenizer on."""
        if self.settings.train is None:
            raise ValueError(
                "data.train names no pairs to train a tokenizer on, and the model brings none: set data.tokenizer, or "
                "data.train"
            )
        found = self._read(self.settings.train, "train", "data.train")
        return [*found.queries, *found.passages]
