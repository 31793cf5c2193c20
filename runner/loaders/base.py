"""The base class of the data modules for a plain Trainer: ranks, resuming, and the checks of settings."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from iolaus.runner.loaders.passes import Passes, PassLoader
from iolaus.runner.run.replicas import replica_of

EXPECTED_WARNINGS = (
    ".*IterableDataset.* has .__len__. defined.*",
    ".*Total length of `list` across ranks is zero.*",
    ".*your dataloader is not resumable.*",
)
"""Warnings of Lightning that do not apply: loaders have a length, there may be none, and the data module resumes."""


class PassesDataModule(pl.LightningDataModule):
    """Serves passes over the data; training resumes after the batches that a checkpoint has consumed."""

    def __init__(self) -> None:
        super().__init__()
        for message in EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message)
        self._restored: tuple[int, int] | None = None
        self._training: PassLoader | None = None

    def ranks(self) -> tuple[int, int]:
        """Rank and number of ranks among those that read different data; 0 and 1 without a process group."""
        if self.trainer is not None:
            rank, size, _ = replica_of(self.trainer)
            return rank, size
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1

    def training_loader(self, passes: Passes, num_workers: int, uneven: bool) -> PassLoader:
        """Passes from the position in a checkpoint, else from the trainer's epoch, else from the first."""
        epoch, start = self._restored or (self.trainer.current_epoch if self.trainer is not None else 0, 0)
        self._restored = None
        self._training = PassLoader(passes, num_workers, epoch, start, any_has_more=self.end_check(uneven))
        return self._training

    def end_check(self, uneven: bool) -> Callable[[bool], bool] | None:
        """Asks all ranks whether any has a batch left; none to ask where there is one rank, or all have as many."""
        if not uneven or self.ranks()[1] == 1:
            return None
        device = self.trainer.strategy.root_device if self.trainer is not None else torch.device("cpu")
        group = replica_of(self.trainer).group if self.trainer is not None else None

        def any_has_more(mine: bool) -> bool:
            count = torch.tensor(float(mine), device=device)
            torch.distributed.all_reduce(count, group=group)
            return bool(count)

        return any_has_more

    def order(self) -> dict[str, Any]:
        """The settings that the order of the training batches depends on, compared at a resume."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The pass, its consumed batches, and the settings that their order depends on."""
        if self.trainer is None or self._training is None:
            return {}
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress.current
        consumed = progress.processed
        epoch, start = self._training.place(consumed)
        return {"pass": epoch, "batch": start, "order": self.order()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes after the batches that a checkpoint has consumed.

        Raises:
            ValueError: they were in another order; the message names the differences.
        """
        if "order" not in state_dict:
            return
        saved, ours = state_dict["order"], self.order()
        if changed := [name for name in {**saved, **ours} if saved.get(name) != ours.get(name)]:
            what = ", ".join(f"{n} was {saved.get(n)!r} and is {ours.get(n)!r}" for n in changed)
            raise ValueError(
                f"the checkpoint belongs to another order of the data: {what}. Set it back, or load the weights alone "
                "with load_from_checkpoint and begin anew"
            )
        self._restored = (int(state_dict["pass"]), int(state_dict["batch"]))


def cache_folder(cache_dir: str | Path | None) -> Path:
    """The folder of tokenised data: `cache_dir`, else the environment variable IOLAUS_CACHE, else ~/.cache/iolaus."""
    return Path(cache_dir or os.environ.get("IOLAUS_CACHE") or "~/.cache/iolaus").expanduser()


def check_sizes(**sizes: int) -> None:
    """Raises ValueError for a batch size or length below 1, or fewer than 0 `num_workers`."""
    for name, value in sizes.items():
        lowest = 0 if name == "num_workers" else 1
        if value < lowest:
            raise ValueError(f"{name} must be at least {lowest}, not {value}")
