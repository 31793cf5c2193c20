"""Optimizers, their parameter groups, and the three-phase schedule.

`schedule.py` is the rate as a closed form, `scheduler.py` applies it; `groups.py` decides what decays;
`elementwise.py` and `matrixwise.py` hold one function per optimizer; `hooks.py` is what some need of a loop.
"""

from runner.optim.elementwise import adafactor, adagrad, adam, adamw, lamb, lars, lion, rmsprop, sgd
from runner.optim.groups import groups_table, parameter_groups
from runner.optim.hooks import LoopNeeds, loop_needs
from runner.optim.matrixwise import galore, muon, shampoo, soap, sophiah, splus
from runner.optim.schedule import ThreePhaseSchedule
from runner.optim.scheduler import (
    ClosedFormScheduler,
    InverseSqrtScheduler,
    ThreePhaseScheduler,
    get_scheduler,
    get_single_scheduler,
)
from runner.optim.table import OPTIMIZERS, get_optimizer

__all__ = [
    "OPTIMIZERS",
    "ClosedFormScheduler",
    "InverseSqrtScheduler",
    "LoopNeeds",
    "ThreePhaseSchedule",
    "ThreePhaseScheduler",
    "adafactor",
    "adagrad",
    "adam",
    "adamw",
    "galore",
    "get_optimizer",
    "get_scheduler",
    "get_single_scheduler",
    "groups_table",
    "lamb",
    "lars",
    "lion",
    "loop_needs",
    "muon",
    "parameter_groups",
    "rmsprop",
    "sgd",
    "shampoo",
    "soap",
    "sophiah",
    "splus",
]
