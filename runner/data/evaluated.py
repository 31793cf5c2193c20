"""The base class of data modules with labelled examples: validation and test sets by name, each evaluated once."""

from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader

from iolaus.runner.data.batches import VALIDATION_STREAM, GatheredSequences, batch_loader
from iolaus.runner.data.module import GlobalBatchDataModule
from iolaus.runner.samplers import Sequential

EVALUATED_AT_ONCE = 512
"""Samples of an evaluation that are sorted by length together; without gradients they fit into memory."""


class EvaluatedDataModule(GlobalBatchDataModule):
    """A data module with `test` sets beside those of validation; a subclass makes all of them in `prepare_data`."""

    validation: dict[str, Any]
    test: dict[str, Any]
    task_name: str
    """The name of the task."""

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
