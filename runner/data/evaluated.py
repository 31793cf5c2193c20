"""The base class of data modules with labelled examples: validation and test sets by name, each evaluated once."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader

from iolaus.conf.data.labelled import FinetuningData
from iolaus.conf.data.vision import ImageText
from iolaus.runner.data.batches import VALIDATION_STREAM, GatheredSequences, batch_loader
from iolaus.runner.data.module import GlobalBatchDataModule
from iolaus.runner.samplers import Sequential

EVALUATED_AT_ONCE = 512
"""Samples of an evaluation that are sorted by length together; without gradients they fit into memory."""


class EvaluatedDataModule(GlobalBatchDataModule):
    """A data module with `test` sets beside those of validation; a subclass makes all of them in `prepare_data`."""

    train_set: Any
    task_name: str
    """What the examples are examples of."""
    description: str
    """Where the training examples are from."""

    def __init__(self, settings: FinetuningData | ImageText) -> None:
        super().__init__(
            settings.layout, settings.micro_batch_tokens, settings.micro_batch_size, settings.num_workers
        )
        self.sources = {"train": settings.train, "validation": settings.validation, "test": settings.test}
        self.test: dict[str, Any] = {}
        self.prepared = False

    @abstractmethod
    def counts(self, sequences: Any) -> str:
        """How many examples and tokens a set has."""

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """What is known of labels or images, and of the vocabulary."""

    def describe(self) -> dict[str, str]:
        """Counts for the summary at the start."""
        tests = {f"test {name}": sequences for name, sequences in self.test.items()}
        sets: dict[str, Any] = {"training": self.train_set, **self.validation, **tests}
        size = self.sampler.global_batch_size
        tokens = size * self.train_set.num_tokens // len(self.train_set)
        return {
            "source": self.description,
            **{name: self.counts(sequences) for name, sequences in sets.items()},
            **self.facts(),
            "global batch": f"{size} samples, about {tokens:,} tokens",
            "micro-batch": f"{self.micro_batch_tokens or 'any number of'} tokens, {self.layout}",
        }

    @property
    def test_names(self) -> list[str]:
        """The test sets, in the order of their loaders."""
        return list(self.test)

    def val_dataloader(self) -> list[DataLoader[Any]]:
        """One loader per validation set: every sample once, over all ranks."""
        return [self._evaluation_loader(sequences) for sequences in self.validation.values()]

    def test_dataloader(self) -> list[DataLoader[Any]]:
        """One loader per test set, like those of validation."""
        return [self._evaluation_loader(sequences) for sequences in self.test.values()]

    def _evaluation_loader(self, sequences: GatheredSequences) -> DataLoader[Any]:
        size = min(EVALUATED_AT_ONCE, len(sequences))
        sampler = Sequential(
            dataset=sequences, num_epochs=1, num_batches=None, global_batch_size=size, seed=self.seed
        )
        batches = self._batches(sequences, sampler, VALIDATION_STREAM, *self._data_parallel())
        return batch_loader(batches, 0, len(sampler), 0, self._pins())


def by_name(sources: Any, name: str) -> dict[str, Any]:
    """Sets by name; a single one is called `name`."""
    if sources is None:
        return {}
    if isinstance(sources, Mapping):
        return dict(sources)
    return {name: sources}
