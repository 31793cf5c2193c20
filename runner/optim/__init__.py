"""Optimizers, their parameter groups, and the schedule of the learning rate.

`elementwise.py` and `matrixwise.py` hold one function per optimizer, `runner.optim.adamw` and so on.
`shared_settings.py` makes the parameter groups that they take, by way of `groups.py` (what decays, and at which rate)
and `roles.py` (what each parameter is for). `hooks.py` says what an optimizer needs of the loop around it. `schedule/`
is the learning rate over the run. What needs torch is imported when it is named: a schedule can be checked without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from iolaus.runner.optim.schedule.phases import ThreePhaseSchedule

if TYPE_CHECKING:
    from iolaus.runner.optim.groups import groups_table, parameter_groups
    from iolaus.runner.optim.hooks import LoopNeeds, loop_needs
    from iolaus.runner.optim.schedule.schedulers import (
        ClosedFormScheduler,
        InverseSqrtScheduler,
        ThreePhaseScheduler,
        get_scheduler,
        get_single_scheduler,
    )
    from iolaus.runner.optim.table import OPTIMIZERS, get_optimizer

__all__ = [
    "OPTIMIZERS",
    "ClosedFormScheduler",
    "InverseSqrtScheduler",
    "LoopNeeds",
    "ThreePhaseSchedule",
    "ThreePhaseScheduler",
    "get_optimizer",
    "get_scheduler",
    "get_single_scheduler",
    "groups_table",
    "loop_needs",
    "parameter_groups",
]

_HOMES = ("groups", "hooks", "schedule.schedulers", "table")


def __getattr__(name: str) -> Any:
    """Imports a name of `__all__`, or an optimizer, when it is first named."""
    homes = _HOMES if name in __all__ else _homes_of_optimizer(name)
    for home in homes:
        module = import_module(f"iolaus.runner.optim.{home}")
        if name in vars(module):
            return vars(module)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _homes_of_optimizer(name: str) -> tuple[str, ...]:
    """The module of an optimizer's function: the one that is called as its dataclass's in `conf/optimizer/`."""
    from iolaus.conf.registry import OPTIONS

    option = OPTIONS["optimizer"].get(name)
    ours = getattr(option, "_target_", None) == f"runner.optim.{name}"
    return (option.__module__.rpartition(".")[2],) if option is not None and ours else ()
