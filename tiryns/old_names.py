"""Makes `runner` and `conf` other names of `tiryns.runner` and `tiryns.conf`: the same modules, never a copy.

Code for earlier versions imports them so, and a checkout, which has both folders, runs `python -m runner.train`. A
project's own `conf` or `runner` goes first.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import cast

OURS = ("conf", "runner")

MOVED = {
    "runner.checkpoint": "runner.checkpoints",
    "runner.checks": "runner.config",
    "runner.data.keyed": "runner.order.keyed",
    "runner.data.microbatches": "runner.loaders.microbatches",
    "runner.data.multi_epoch": "runner.loaders.multi_epoch",
    "runner.data.packing": "runner.order.packing",
    "runner.data.processors": "runner.data.vision.processors",
    "runner.data.scenes": "runner.data.demo",
    "runner.data.stdlib_tasks": "runner.data.demo.stdlib_tasks",
    "runner.data.stdlib_text": "runner.data.demo",
    "runner.data.tokenizer": "runner.data.text.tokenizer",
    "runner.flops": "runner.models.flops",
    "runner.loggers": "runner.logging",
    "runner.metrics": "runner.evaluation.metrics",
    "runner.models.packed_rows": "runner.models.packed.rows",
    "runner.sweep": "runner.sweeps",
    "runner.trainer": "runner.loop",
}
"""Modules of version 0.1 that have moved, and their current names."""


def current_name(target: str) -> str:
    """The current name of a `_target_`: without `tiryns.`, and in the module that it has moved to.

    Example:
        >>> current_name("runner.trainer.build_trainer"), current_name("my_package.trainer.build_trainer")
        ('runner.loop.build_trainer', 'my_package.trainer.build_trainer')
    """
    target = target.removeprefix("tiryns.") if target.startswith("tiryns.runner.") else target
    module, dot, name = target.rpartition(".")
    return f"{MOVED.get(module, module)}{dot}{name}"


DOORS = {
    **{f"runner.{name}": name for name in ("audit", "consolidate", "predict", "push", "schedule")},
    "runner.data.prepare_energon": "prepare",
    "runner.report.__main__": "report",
}
"""Modules that `python -m` ran in version 0.1, with their subcommands of `tiryns`."""


class OldNames(MetaPathFinder):
    """Finds our modules by their old names: those inside of `runner` and `conf` if `inner`, else these two."""

    def __init__(self, inner: bool) -> None:
        self.inner = inner

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of an old name; None for a name that is not ours."""
        top, _, rest = fullname.partition(".")
        if top not in OURS or bool(rest) != self.inner:
            return None
        if rest and sys.modules.get(top) is not sys.modules.get(f"tiryns.{top}"):
            return None  # another project's package
        current = "runner.cli.commands" if fullname in DOORS else MOVED.get(fullname, fullname)
        found = find_spec(f"tiryns.{current}")
        if found is None:
            return None
        inside = found.submodule_search_locations
        spec = ModuleSpec(fullname, Alias(found), origin=found.origin, is_package=inside is not None)
        spec.submodule_search_locations = inside
        return spec


class Alias(Loader):
    """Loads the module of another name."""

    def __init__(self, current: ModuleSpec) -> None:
        self.current = current

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself."""
        return import_module(self.current.name)

    def exec_module(self, module: ModuleType) -> None:
        """Restores the specification, which the import system has replaced by that of the old name."""
        module.__spec__ = self.current

    def get_code(self, fullname: str) -> CodeType | None:
        """The code for `python -m`."""
        return cast(InspectLoader, self.current.loader).get_code(self.current.name)


def keep_old_names() -> None:
    """Makes the old names work from now on, unless another package has them."""
    sys.meta_path.insert(0, OldNames(inner=True))
    sys.meta_path.append(OldNames(inner=False))
