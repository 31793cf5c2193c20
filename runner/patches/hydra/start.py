"""What a start of the program uses of Hydra 1.3 and 1.4: names that the two spell differently, plugins, flags, a job.

Hydra 1.3 behaves as 1.1 unless `version_base` is given; 1.4 deprecates the argument and 1.5 removes it. OmegaConf 2.4
deprecates `register_new_resolver` for `register_resolver`, which in 2.3 is an older function that reads no arguments.
Both versions of Hydra build the parser of their flags in `hydra._internal.utils`, and list the flags nowhere else.
"""

import argparse
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import hydra
import omegaconf
from hydra._internal.callbacks import Callbacks
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, run_job
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

VERSION_BASE: dict[str, str] = {"version_base": "1.3"} if hydra.__version__.startswith("1.3.") else {}
"""Arguments of `hydra.main` and `hydra.initialize_config_module` for the current behaviour."""

_IS_OLD = omegaconf.__version__.startswith("2.3.")

LEFT_OUT = "hydra_plugins.hydra_msc_plugin"
"""The plugin of multi-storage-client (which megatron-energon requires): it takes 0.3 CPU s of each start, and prints
tracebacks on `--info searchpath`. Hydra has no setting that leaves one out."""

BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher"
"""The logger of Hydra's own launcher in 1.3 and 1.4, which announces each job by all of its overrides."""

SHOWING = ("--cfg", "-c", "--info", "-i")
"""Flags with which a command prints the config, or what it is made of, and runs nothing."""


def register_resolver(name: str, resolver: Callable[..., object]) -> None:
    """Registers a resolver of interpolations, in the place of one of the same name.

    Example:
        >>> register_resolver("twice", lambda number: 2 * number)
        >>> OmegaConf.create({"a": "${twice:4}"}).a
        8
    """
    register: Any = OmegaConf.register_new_resolver if _IS_OLD else OmegaConf.register_resolver
    register(name, resolver, replace=True)


def plugins() -> Plugins:
    """Returns Hydra's plugins; the first call searches for them, in every module of `hydra_plugins` but `LEFT_OUT`.

    A program that has started Hydra before us keeps its plugins.

    Example:
        >>> plugins() is Plugins.instance()
        True
    """
    if LEFT_OUT in sys.modules:
        return Plugins.instance()
    # Hydra 1.3 runs the code of a module that is there once more but skips None, of which 1.4 warns
    blank: dict[str, ModuleType | None] = {LEFT_OUT: None if VERSION_BASE else ModuleType(LEFT_OUT)}
    sys.modules.update(blank)  # type: ignore[arg-type]
    try:
        return Plugins.instance()
    finally:
        del sys.modules[LEFT_OUT]


def only_shows() -> bool:
    """Returns whether this command prints a config and runs nothing."""
    return any(word.partition("=")[0] in SHOWING for word in sys.argv[1:])


def hydra_parser() -> argparse.ArgumentParser:
    """Returns the parser of Hydra's flags; its argument `overrides` takes the overrides.

    Example:
        >>> hydra_parser().parse_args(["--multirun", "seed=1,2"]).overrides
        ['seed=1,2']
    """
    # Python 3.14 checks each help text at once, and one of Hydra 1.3's is an object
    check = getattr(argparse.ArgumentParser, "_check_help", None)
    if check is not None and not hasattr(check, "of_texts"):

        def check_text(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
            if isinstance(action.help, str):
                check(parser, action)

        vars(check_text)["of_texts"] = True
        argparse.ArgumentParser._check_help = check_text  # type: ignore[attr-defined]
    return get_args_parser()


def run_composed(task: Callable[[DictConfig], object], config: DictConfig) -> JobReturn:
    """Calls a task with a composed config in its run folder, with Hydra's callbacks; its error is in the returned record.

    `hydra.core.utils.run_job` is public, but needs the callbacks of the config, whose class is in `hydra._internal`.

    Example:
        >>> run_composed(lambda config: config.seed, config).return_value  # doctest: +SKIP
        42
    """
    context = HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=Callbacks(config))
    return run_job(task, config, "hydra.run.dir", None, context, configure_logging=False)
