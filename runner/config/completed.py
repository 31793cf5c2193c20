"""Completes configs in which a group has a class of Lightning, or nothing, and says whose a learning rate is."""

from dataclasses import asdict
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tiryns.conf.registry import OPTIONS, option_of
from tiryns.conf.trainer import Trainer

LIGHTNING = {
    "log_every": "log_every_n_steps",
    "validate_every": "val_check_interval",
    "validation_batches": "limit_val_batches",
}
"""Lightning's names for settings of our trainer."""

EMPTY = ("callback", "logger")
"""Groups that may be empty."""


def completed(config: DictConfig) -> DictConfig:
    """A copy of a config that can be changed, with every setting of our trainer.

    Settings that a class of Lightning has under another name have its values; the rest are as in `trainer=auto`.
    """
    copy = config.copy()
    OmegaConf.set_readonly(copy, False)
    OmegaConf.set_struct(copy, False)
    for group in EMPTY:
        if OmegaConf.is_missing(copy, group) or copy.get(group) is None:
            copy[group] = {}
    if option_of("trainer", copy.trainer) is None:
        defaults = asdict(Trainer())
        if "max_epochs" in copy.trainer:
            defaults["max_steps"] = -1
        for name, value in defaults.items():
            if name not in copy.trainer and name != "_target_":
                theirs = copy.trainer.get(LIGHTNING.get(name, name))
                copy.trainer[name] = value if theirs is None else theirs
    return copy


def rate_of_recipe(config: DictConfig, hydra: Any) -> str | None:
    """What to say where the command chooses the optimizer and a recipe the rate, which may be for another one."""
    typed = {word.partition("=")[0].lstrip("+") for word in hydra.overrides.task}
    recipe, name = (hydra.runtime.choices.get(group) for group in ("experiment", "optimizer"))
    if not recipe or "optimizer" not in typed or "optimizer.lr" in typed or name not in OPTIONS["optimizer"]:
        return None
    own, rate = asdict(OPTIONS["optimizer"][name]()).get("lr"), config.optimizer.get("lr")
    if own in (None, rate):
        return None
    return f"optimizer.lr={rate} comes from the recipe {recipe}; optimizer={name} has {own} by default"
