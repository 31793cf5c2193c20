"""The data module of ranking."""

from typing import Any

from tiryns.conf.data import pairs as options
from tiryns.runner.config.settings import takes_settings
from tiryns.runner.data.labelled.examples import READER_SETTINGS
from tiryns.runner.data.labelled.finetuning import FinetuningData
from tiryns.runner.data.read.rows import Rows


class RankingData(FinetuningData):
    """Queries with candidates, from files, the hub, or made in code (`set_datasets`).

    Lists of one query are held out together. Example: `tiryns experiment=ranking data=ranking data.train=train.jsonl`
    """

    settings: options.RankingData
    reader_names = (*READER_SETTINGS, "negative_columns")

    @takes_settings(options.RankingData)
    def __init__(self, settings: options.RankingData) -> None:
        self.set_up(settings)

    def _groups(self, examples: list[Any], rows: Rows) -> list[str]:
        given = self.settings.group_column is not None
        return super()._groups(examples, rows) if given else [example.text for example in examples]
