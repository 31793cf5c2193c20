"""What the data modules for a plain Trainer share: where a loader stands, and among which ranks."""

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
"""What Lightning warns of that is so on purpose: loaders have a length, or none are there; the data module goes on."""


class PassesDataModule(pl.LightningDataModule):
    """Serves passes, of which training goes on with the batch after those that a checkpoint has consumed."""

    def __init__(self) -> None:
        super().__init__()
        for message in EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message)
        self._restored: tuple[int, int] | None = None
        self._training: PassLoader | None = None

    def ranks(self) -> tuple[int, int]:
        """This process's rank, and their number, among those that read different data; 0 and 1 where it is alone."""
        if self.trainer is not None:
            rank, size, _ = replica_of(self.trainer)
            return rank, size
        return group_ranks()

    def training_loader(self, passes: Passes, num_workers: int, uneven: bool) -> PassLoader:
        """Passes from where a checkpoint left them, else from that of the trainer's epoch, else from the first."""
        epoch, start = self._restored or (self.trainer.current_epoch if self.trainer is not None else 0, 0)
        self._restored = None
        self._training = PassLoader(passes, num_workers, epoch, start, any_has_more=self.asking(uneven))
        return self._training

    def asking(self, uneven: bool) -> Callable[[bool], bool] | None:
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
        """What the order of the training batches depends on, to be compared when a checkpoint is taken up."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The pass, the batches of it that were trained on, and what their order depends on."""
        if self.trainer is None or self._training is None:
            return {}
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress.current
        epoch, start = self._training.place(progress.processed)
        return {"pass": epoch, "batch": start, "order": self.order()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on after the batches that a checkpoint has consumed.

        Raises:
            ValueError: they were in another order; what differs is named.
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


def group_ranks() -> tuple[int, int]:
    """Rank and number of ranks of the process group, (0, 1) without one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def cache_folder(cache_dir: str | Path | None) -> Path:
    """Where tokenised data is kept: `cache_dir`, else the folder that IOLAUS_CACHE names, else ~/.cache/iolaus."""
    return Path(cache_dir or os.environ.get("IOLAUS_CACHE") or "~/.cache/iolaus").expanduser()


def check_sizes(**sizes: int) -> None:
    """Raises ValueError for a batch size or length below 1, or fewer than 0 `num_workers`."""
    for name, value in sizes.items():
        lowest = 0 if name == "num_workers" else 1
        if value < lowest:
            raise ValueError(f"{name} must be at least {lowest}, not {value}")
