"""A config with what every part of a run reads from it, also where a group has a class of Lightning or nothing."""

from dataclasses import asdict
from typing import Any

from omegaconf import DictConfig, OmegaConf

from iolaus.conf.registry import option_of
from iolaus.conf.trainer import Trainer

LIGHTNING = {
    "log_every": "log_every_n_steps",
    "validate_every": "val_check_interval",
    "validation_batches": "limit_val_batches",
}
"""What Lightning's Trainer calls settings of ours."""

EMPTY = ("callback", "logger")
"""Groups of which nothing may be chosen."""


def completed(config: DictConfig) -> DictConfig:
    """A copy of a config that can be written to, with a trainer that has every setting of ours.

    Those that a class of Lightning calls otherwise have its values; the rest are as in `trainer=auto`.
    """
    copy = config.copy()
    OmegaConf.set_readonly(copy, False)
    OmegaConf.set_struct(copy, False)
    for group in EMPTY:
        if OmegaConf.is_missing(copy, group) or copy.get(group) is None:
            copy[group] = {}
    if option_of("trainer", copy.trainer) is None:
        found: dict[str, Any] = {
            **asdict(Trainer()),
            **({"max_steps": -1} if "max_epochs" in copy.trainer else {}),
        }
        for name, value in found.items():
            if name not in copy.trainer and name != "_target_":
                theirs = copy.trainer.get(LIGHTNING.get(name, name))
                copy.trainer[name] = value if theirs is None else theirs
    return copy
