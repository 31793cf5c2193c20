"""Minimal pairs: two sentences that differ in little, of which one is right (BLiMP, arXiv 1912.00582)."""

from pathlib import Path
from typing import NamedTuple

from tiryns.conf.data.pairs import MinimalPairs as Settings
from tiryns.runner.config.settings import takes_settings
from tiryns.runner.data.evaluated import by_name
from tiryns.runner.data.labelled.examples import text_of
from tiryns.runner.data.labelled.words.annotations import file_of
from tiryns.runner.data.read.opened import reading_of
from tiryns.runner.data.read.rows import Row, read_rows


class Pair(NamedTuple):
    """The right sentence, the wrong one, and the phenomenon that they are about."""

    good: str
    bad: str
    phenomenon: str


class MinimalPairs:
    """Sets of minimal pairs for `mode=probe`.

    Example: `tiryns mode=probe data=minimal_pairs data.test=blimp model=pretrained model.name_or_path=RUN`
    """

    sets: dict[str, list[Pair]]
    """By name, such as `test/test`."""

    @takes_settings(Settings)
    def __init__(self, settings: Settings) -> None:
        self.settings, self.reading = settings, reading_of(settings)

    def prepare_data(self) -> None:
        """Reads every set. Raises ValueError for a pair of the same sentences, or a row without one of them."""
        self.sets = {}
        for name, source in by_name(self.settings.test, "test").items():
            rows = read_rows(source, self.reading, "test", f"data.test {name!r}").rows
            self.sets[f"test/{name}"] = [self._pair(row, name) for row in rows]

    def _pair(self, row: Row, name: str) -> Pair:
        given = self.settings
        good = text_of(row, given.good_column, "data.good_column")
        bad = text_of(row, given.bad_column, "data.bad_column")
        if good == bad:
            raise ValueError(f"{row.where}: both sentences are {good!r:.80}")
        phenomenon = row.values.get(given.phenomenon_column) or Path(file_of(row.where)).stem or name
        return Pair(good, bad, str(phenomenon))
