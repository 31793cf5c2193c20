"""The base class of the data modules for a plain Trainer: ranks, resuming, and checks of sizes."""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import lightning.pytorch as pl
import torch
from transformers import PreTrainedTokenizerBase

from tiryns.runner.data.batches import MASK_STREAM, VALIDATION_STREAM
from tiryns.runner.data.read.documents import Source, open_source
from tiryns.runner.data.read.files import SPLIT_NAMES, is_saved, split_files
from tiryns.runner.data.read.formats import DOCUMENTS
from tiryns.runner.data.replicas import Replica, find_replica
from tiryns.runner.data.text.tokenizer import MASKING, load_tokenizer
from tiryns.runner.loaders.passes import Passes, PassLoader
from tiryns.runner.objectives import Collator
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.samplers.base import differences

EXPECTED_WARNINGS = (
    ".*IterableDataset.* has .__len__. defined.*",
    ".*Total length of `list` across ranks is zero.*",
    ".*your dataloader is not resumable.*",
)
"""Warnings of Lightning that do not apply: loaders have a length, a set may be missing, and the data module resumes."""

SIZES = ("max_sequence_length", "train_batch_size", "val_batch_size", "test_batch_size", "num_workers")


class PassesDataModule(pl.LightningDataModule):
    """Serves passes over the data; training resumes after the batches that a checkpoint has consumed.

    A subclass is a dataclass; its fields are the settings.
    """

    pretrained_tokenizer_name_or_path: str
    num_workers: int
    seed: int
    collator_kwargs: dict[str, object] | None
    collator: Any
    needed_tokens: ClassVar[Sequence[str]] = MASKING
    """Special tokens that the tokenizer must have."""

    def __post_init__(self) -> None:
        """Raises ValueError for a batch size or length below 1, or fewer than 0 `num_workers`."""
        super().__init__()
        self.save_hyperparameters(logger=False)
        for name in SIZES:
            lowest = 0 if name == "num_workers" else 1
            if (value := getattr(self, name, lowest)) < lowest:
                raise ValueError(f"{name} must be at least {lowest}, not {value}")
        for message in EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message)
        self._position: tuple[int, int] | None = None
        self._training: PassLoader | None = None

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that the setting names."""
        return load_tokenizer(model_folder(self.pretrained_tokenizer_name_or_path), self.needed_tokens)

    def make_collator(self, kind: type[Collator], arguments: Mapping[str, Any]) -> Collator:
        """Returns the collator with `collator_kwargs`; raises ValueError for an argument that changes no batch."""
        settings = self.collator_kwargs or {}
        others = {*self.hparams, *kind.built_with, *kind.predicts_with, "final_mlm_probability"}
        for name in (others & settings.keys()) - {"encoder_mlm_probability"}:  # which masks the batches too
            raise ValueError(f"collator_kwargs: {name} is for the data module itself, or for a run")
        return kind(**{**arguments, **settings})

    def replica(self) -> Replica:
        """Returns this rank's index among ranks with different data, their number and group; (0, 1, None) if alone."""
        return find_replica(None, self.trainer)

    def pass_arguments(self, training: bool, batch_size: int) -> dict[str, Any]:
        """Returns the arguments of this rank's `Passes` over training or evaluation data."""
        replica, stream = self.replica(), MASK_STREAM if training else VALIDATION_STREAM
        arguments = {"collator": self.collator, "batch_size": batch_size, "seed": self.seed, "stream": stream}
        return {**arguments, "rank": replica.rank, "num_ranks": replica.size}

    def training_loader(self, passes: Passes, uneven: bool) -> PassLoader:
        """Returns a loader from the restored position, else from the trainer's epoch or 0; `uneven`: ranks may differ."""
        at: tuple[int, int | None] = self._position or (self.trainer.current_epoch if self.trainer else 0, 0)
        # with max_steps, Lightning ends the epoch of a checkpoint again, by no batch, before it begins the next one
        if self._position and self.trainer and self.trainer.max_steps != -1 and at[1] == 0 < at[0]:
            at = at[0] - 1, None
        self._position, check = None, self.end_check(uneven)
        self._training = PassLoader(passes, self.num_workers, *at, any_has_more=check)
        return self._training

    def end_check(self, uneven: bool) -> Callable[[bool], bool] | None:
        """Returns a function that asks all ranks if any has a batch left; None for one rank, or if not `uneven`."""
        replica = self.replica()
        if not uneven or replica.size == 1:
            return None
        device = "cpu" if self.trainer is None else self.trainer.strategy.root_device

        def any_has_more(mine: bool) -> bool:
            count = torch.tensor(float(mine), device=device)
            torch.distributed.all_reduce(count, group=replica.group)
            return bool(count)

        return any_has_more

    def order(self) -> dict[str, object]:
        """Returns the settings that the order of the training batches depends on, compared at a resume."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Returns the pass, its consumed batches, and the settings that their order depends on."""
        if self.trainer is None or self._training is None:
            return {}
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress
        (epoch, start), count = self._training.following, progress.current.processed
        # the trainer's epoch ends before the pass does where `limit_train_batches` is set
        if epoch > self._training.epoch and not (progress.is_last_batch and count == progress.current.ready):
            epoch, start = self._training.epoch, count
        return {"pass": epoch, "batch": start, "order": self.order()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes training after the batches of a checkpoint; ValueError if the order of the data has changed."""
        if "order" not in state_dict or not (self.trainer is None or self.trainer.training):
            return  # a checkpoint may be evaluated on other data
        if changes := differences(state_dict["order"], self.order()):
            raise ValueError(
                f"the checkpoint belongs to another order of the data: {changes}. Restore these settings, or "
                "load only the weights with load_from_checkpoint and start anew"
            )
        self._position = (int(state_dict["pass"]), int(state_dict["batch"]))


def open_splits(paths: str | Path | Iterable[str], split: str | None, default: str, **reading: Any) -> Source:
    """Returns the documents of one path, or of several in sequence, in a `split`; None: the `default` split.

    `reading` goes to `open_source`. Raises FileNotFoundError for a missing file, and ValueError for no path or an
    unknown split; the message has the known ones.
    """
    names = []
    for path in as_list(paths):
        location = Path(path).expanduser()
        if location.is_dir() and not is_saved(location):
            path_split = split or (default if split_files(location, default, DOCUMENTS) else None)
        else:
            usual = any(split in aliases for aliases in SPLIT_NAMES.values())
            path_split = None if usual else split  # a file alone is all of any usual split
        names.append(f"{path}@{path_split}" if path_split and location.exists() else path)
    if not names:
        problem = "train_dataset_name_or_path is an empty list: name at least one file, folder or data set"
        raise ValueError(problem)
    return open_source(names, split=split or default, **reading)


def as_list(names: str | Path | Iterable[str]) -> list[str]:
    """Returns one name or several as a list."""
    return [str(names)] if isinstance(names, str | Path) else [str(name) for name in names]


def validation_sets(
    paths: str | list[str] | None, splits: str | list[str] | None
) -> dict[str, tuple[str, str | None]]:
    """Returns path and split of each validation set, by its name.

    One split serves all paths, one path may have several splits; else the lists must be equally long (ValueError).
    """
    if not paths:
        return {}
    split_names: list[str | None] = [None] if splits is None else [*as_list(splits)]
    paths = as_list(paths)
    paths = paths * len(split_names) if len(paths) == 1 else paths
    split_names = split_names * len(paths) if len(split_names) == 1 else split_names
    if len(split_names) != len(paths):
        raise ValueError(
            f"val_split names {len(split_names)} splits for {len(paths)} validation sets: give one for all, or one each"
        )
    pairs = list(zip(paths, split_names, strict=True))
    several_splits = len(set(paths)) < len(paths)
    names = [split if several_splits and split else Path(path).stem for path, split in pairs]
    names = [re.sub(r"[^\w.-]", "_", name).lstrip(".-") or "validation" for name in names]
    unique = [
        f"{name}_{names[:number].count(name) + 1}" if names.count(name) > 1 or name == "train" else name
        for number, name in enumerate(names)
    ]
    return dict(zip(unique, pairs, strict=True))
