"""Optimizers, their parameter groups, and the schedule of the learning rate.

`elementwise.py` and `matrixwise.py` hold one function per optimizer, `runner.optim.adamw` and so on.
`shared_settings.py` makes the parameter groups that they take, by way of `groups.py` (what decays, and at which rate)
and `roles.py` (what each parameter is for). `hooks.py` says what an optimizer needs of the loop around it. `schedule/`
is the learning rate over the run. What needs torch is imported when it is named: a schedule can be checked without.
"""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.optim.elementwise import (
        adafactor,
        adagrad,
        adam,
        adamw,
        lamb,
        lars,
        lion,
        rmsprop,
        sgd,
    )
    from iolaus.runner.optim.groups import groups_table, parameter_groups
    from iolaus.runner.optim.hooks import LoopNeeds, loop_needs
    from iolaus.runner.optim.matrixwise import galore, muon, shampoo, soap, sophiah, splus
    from iolaus.runner.optim.schedule.phases import ThreePhaseSchedule
    from iolaus.runner.optim.schedule.schedulers import (
        ClosedFormScheduler,
        InverseSqrtScheduler,
        ThreePhaseScheduler,
        get_scheduler,
        get_single_scheduler,
    )
    from iolaus.runner.optim.table import OPTIMIZERS, get_optimizer
else:
    __getattr__, __dir__ = lazy_names(__name__)

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
