"""The base class of data modules with labelled examples: validation and test sets by name, each evaluated once."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader

from tiryns.conf.data.labelled import FinetuningData
from tiryns.conf.data.vision import ImageText
from tiryns.runner.data.module import GlobalBatchDataModule

EVALUATED_AT_ONCE = 512
"""Samples of an evaluation that are sorted by length together; without gradients they fit into memory."""


class EvaluatedDataModule(GlobalBatchDataModule):
    """A data module with `test` sets beside those of validation; a subclass makes all of them in `prepare_data`."""

    train_set: Any
    task_name: str
    description: str
    """The source of the training examples."""

    def __init__(self, settings: FinetuningData | ImageText) -> None:
        super().__init__(
            settings.layout, settings.micro_batch_tokens, settings.micro_batch_size, settings.num_workers
        )
        self.sources = {"train": settings.train, "validation": settings.validation, "test": settings.test}
        self.test: dict[str, Any] = {}
        self.prepared = False

    @abstractmethod
    def counts(self, sequences: Any) -> str:
        """Numbers of examples and tokens of a set."""

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Facts about labels or images, and about the vocabulary."""

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
        return self.evaluation_loaders(self.validation, EVALUATED_AT_ONCE)

    def test_dataloader(self) -> list[DataLoader[Any]]:
        """One loader per test set, like those of validation."""
        return self.evaluation_loaders(self.test, EVALUATED_AT_ONCE)


def by_name(sources: Any, name: str) -> dict[str, Any]:
    """Sets by name; a single one is called `name`."""
    if sources is None:
        return {}
    return dict(sources) if isinstance(sources, Mapping) else {name: sources}
