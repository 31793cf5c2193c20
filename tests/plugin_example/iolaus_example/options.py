"""What can be chosen: plain dataclasses, without torch, since every command imports them."""

from dataclasses import dataclass, field
from typing import Any

from iolaus.conf.data.pretraining import PretrainingData
from iolaus.conf.registry import register, register_configs, register_metric


@dataclass
class EveryNth:
    """Masks every n-th ordinary token, without any chance."""

    _target_: str = "iolaus_example.components.EveryNthCollator"
    nth: int = 4
    """Distance between two masks, in ordinary tokens."""


@dataclass
class Sheep(PretrainingData):
    """Sheep, counted: a data source of the plugin's own, with the project's tokeniser, store and order."""

    source: Any = field(default_factory=lambda: {"_target_": "iolaus_example.components.Sheep", "count": 400})


register("objective", every_nth=EveryNth)
register("data", sheep=Sheep)
register_configs("iolaus_example.recipes")
register_metric("classification", "surprise", "iolaus_example.components.Surprise", smaller_is_better=True)
