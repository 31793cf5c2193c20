"""Optimizers and their parameter groups.

- `table`: all optimizers by name; `elementwise`, `matrixwise`: one function per optimizer.
- `algorithms`: optimizers that the libraries lack, and 8-bit variants.
- `shared_settings`: the settings of all optimizers, their parameter groups, and loading of saved state.
- `roles`: the role of each parameter; `groups`: parameter groups; `width`: rates by the width of a model.
- `ema`: a running average of the weights, for any optimizer.
- `hooks`: what the training loop must do for an optimizer.
- `compiled`: compiled functions of a step besides the encoder.
- `schedule`: learning rates; only its module `schedulers` imports torch.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.optim.elementwise import (
        adafactor,
        adagrad,
        adam,
        adamw,
        lamb,
        lars,
        lion,
        rmsprop,
        sgd,
        stable_adamw,
    )
    from tiryns.runner.optim.groups import groups_table, parameter_groups
    from tiryns.runner.optim.hooks import LoopNeeds, loop_needs
    from tiryns.runner.optim.matrixwise import galore, muon, normuon, shampoo, soap, sophiah, splus
    from tiryns.runner.optim.schedule.phases import ThreePhaseSchedule
    from tiryns.runner.optim.schedule.schedulers import (
        ClosedFormScheduler,
        InverseSqrtScheduler,
        ThreePhaseScheduler,
        get_scheduler,
        get_single_scheduler,
    )
    from tiryns.runner.optim.table import OPTIMIZERS, get_optimizer
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "OPTIMIZERS", "ClosedFormScheduler", "InverseSqrtScheduler", "LoopNeeds", "ThreePhaseSchedule",
    "ThreePhaseScheduler", "adafactor", "adagrad", "adam", "adamw", "galore", "get_optimizer",
    "get_scheduler", "get_single_scheduler", "groups_table", "lamb", "lars", "lion", "loop_needs", "muon",
    "normuon", "parameter_groups", "rmsprop", "sgd", "shampoo", "soap", "sophiah", "splus", "stable_adamw",
]  # fmt: skip
