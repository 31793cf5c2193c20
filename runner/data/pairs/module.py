"""Pairs of texts for training, in one set or several; each global batch is from one set."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tiryns.conf.data import pairs as options
from tiryns.conf.values import POSITIVE, check_names
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.labelled.finetuning import FinetuningData
from tiryns.runner.data.pairs.reader import Pair
from tiryns.runner.data.read.bad_rows import BadRows
from tiryns.runner.data.read.rows import Rows
from tiryns.runner.order.mixture import parts_of
from tiryns.runner.samplers import GlobalBatchSampler
from tiryns.runner.samplers.mixed import OneSet


class PairsData(FinetuningData):
    """Queries with passages, hard negatives or scores, from files, the hub, or made in code (`set_datasets`).

    `train` may name several sets: each global batch is from one set, drawn by `weights`. Held-out rows share neither
    a query nor a passage with training rows.
    Example: `tiryns experiment=contrastive data=pairs data.train=train.jsonl`
    """

    settings: options.PairsData
    reader_names = (
        *("text_column", "pair_column", "negative_columns", "label_column", "match_column", "id_column"),
        *("query_prompt", "passage_prompt", "max_query_length"),
    )

    @takes_settings(options.PairsData)
    def __init__(self, settings: options.PairsData) -> None:
        self.set_up(settings)

    def _read(
        self, name: str, part: str, source: object, train: Rows | None = None
    ) -> tuple[Rows, list[Any]]:
        """Reads several training sets one after the other; each example knows its set."""
        if name != "train" or not isinstance(source, Mapping):
            return super()._read(name, part, source, train)
        read = super()._read
        sets = {one: read(f"train/{one}", part, path) for one, path in source.items()}
        self.bad["train"] = BadRows(self.settings.on_bad_row == "skip", "data.on_bad_row=skip")
        rows = [rows for rows, _ in sets.values()]
        all_rows = rows[0]._replace(
            rows=[row for one in rows for row in one.rows],
            description=", ".join(one.description for one in rows),
        )
        return all_rows, [pair._replace(set=one) for one, (_, pairs) in sets.items() for pair in pairs]

    def _groups(self, examples: list[Pair], rows: Rows) -> list[str]:
        """Returns the group of each row; rows that share a query or passage, even through others, are one group."""
        if self.settings.group_column is not None:
            return super()._groups(examples, rows)
        above: dict[str, str] = {}

        def first(text: str) -> str:
            while (up := above.setdefault(text, text)) != text:
                above[text] = above[up]
                text = up
            return text

        for pair in examples:
            above[first(pair.pair)] = first(pair.text)
        return [first(pair.text) for pair in examples]

    def _sampler(
        self, make_sampler: Callable[..., GlobalBatchSampler], max_steps: int, max_epochs: float | None
    ) -> GlobalBatchSampler:
        whole = super()._sampler(make_sampler, max_steps, max_epochs)
        sizes = self.set_sizes()
        return whole if len(sizes) == 1 else OneSet(whole, sizes, parts_of(self.shares(sizes)))

    def set_sizes(self) -> dict[str, int]:
        """Returns the number of rows of each training set, in the order of the samples."""
        return Counter(pair.set for pair in self.train_set.examples)

    def shares(self, sizes: Mapping[str, int]) -> dict[str, float]:
        """Returns each set's share of the global batches. ValueError for unknown sets or sets without positive weight."""
        if self.settings.weights is None:
            return dict(sizes)
        weights = dict(self.settings.weights)
        check_names("data.weights", weights, sizes, ": data.train has")
        for name in sizes:
            if POSITIVE.problem(weights.get(name)):
                raise ValueError(f"data.weights: {name!r} must be {POSITIVE}, not {weights.get(name)!r}")
        return {name: weights[name] for name in sizes}

    def collator_arguments(self) -> Any:
        """Returns the arguments for labelled data, with all sets, and the length of the longest query or passage."""
        longest = max(self.max_length, self.settings.max_query_length or 0)
        sets = [self.train_set, *self.validation.values(), *self.test.values()]
        return {**super().collator_arguments(), "max_sequence_length": longest, "pair_sets": sets}

    def facts(self) -> dict[str, str]:
        sizes = self.set_sizes()
        counts = ", ".join(f"{name}: {size:,}" for name, size in sizes.items())
        return {**({"sets": counts} if len(sizes) > 1 else {}), **super().facts()}
