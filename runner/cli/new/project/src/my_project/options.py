"""What can be chosen: plain dataclasses, without torch, since every command imports them."""

from dataclasses import dataclass, field
from typing import Any

from tiryns import register, register_configs, register_metric
from tiryns.conf.data.pretraining import PretrainingData
from tiryns.conf.values import COUNT, setting


@dataclass
class EveryNth:
    """Masks every n-th ordinary token, without any chance."""

    _target_: str = "my_project.components.EveryNthCollator"
    nth: int = setting(4, allowed=COUNT)
    """Distance between two masks, in ordinary tokens."""


@dataclass
class Sheep(PretrainingData):
    """Sheep, counted: a data source of our own, with the tokenizer, store and order of Tiryns."""

    source: Any = field(default_factory=lambda: {"_target_": "my_project.components.Sheep", "count": 400})


register("objective", every_nth=EveryNth)
register("data", sheep=Sheep)
register_configs("my_project.conf")
register_metric("classification", "surprise", "my_project.components.Surprise", smaller_is_better=True)
