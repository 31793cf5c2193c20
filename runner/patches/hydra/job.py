"""A job as Hydra runs it, from Python.

`hydra.core.utils.run_job` is public, but needs the callbacks of the config, whose class Hydra 1.3 and 1.4 keep in
`hydra._internal.callbacks`.
"""

from collections.abc import Callable

from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn, run_job
from hydra.types import HydraContext
from omegaconf import DictConfig


def run_composed(task: Callable[[DictConfig], object], config: DictConfig) -> JobReturn:
    """Calls a task with a composed config in its run folder, with Hydra's callbacks; its error is in what is returned.

    Example:
        >>> run_composed(lambda config: config.seed, config).return_value  # doctest: +SKIP
        42
    """
    context = HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=Callbacks(config))
    return run_job(task, config, "hydra.run.dir", None, context, configure_logging=False)
