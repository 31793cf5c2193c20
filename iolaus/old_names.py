"""`runner` and `conf` as names of their own, beside `iolaus.runner` and `iolaus.conf`: the same modules, never a copy.

A checkout has both folders at its top level, so `python -m runner.train` works there, and code that was written for
earlier versions imports them from anywhere. A project's own `conf` or `runner` goes before them wherever it is found.
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
"""Modules that version 0.1 documents, or that a target of its options names, and what has their names today."""


def current_name(target: str) -> str:
    """What a `_target_` names, as an option of today has it: `iolaus.runner.x.Y` is `runner.x.Y`, and modules have moved.

    Example:
        >>> current_name("runner.trainer.build_trainer"), current_name("my_package.trainer.build_trainer")
        ('runner.loop.build_trainer', 'my_package.trainer.build_trainer')
    """
    target = target.removeprefix("iolaus.") if target.startswith("iolaus.runner.") else target
    module, dot, name = target.rpartition(".")
    return f"{MOVED.get(module, module)}{dot}{name}"


DOORS = {
    **{f"runner.{name}": name for name in ("audit", "consolidate", "predict", "push", "schedule")},
    "runner.data.prepare_energon": "prepare",
    "runner.report.__main__": "report",
}
"""What `python -m` ran in version 0.1, with the subcommand of `iolaus` that it is now."""


class OldNames(MetaPathFinder):
    """Finds modules of ours by their old names; `inner` for those inside of `runner` and `conf`, else for these two."""

    def __init__(self, inner: bool) -> None:
        self.inner = inner

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a module that stands for ours; None for a name that is not ours."""
        top, _, rest = fullname.partition(".")
        if top not in OURS or bool(rest) != self.inner:
            return None
        if rest and sys.modules.get(top) is not sys.modules.get(f"iolaus.{top}"):
            return None  # a package of somebody else
        meant = "runner.cli.commands" if fullname in DOORS else MOVED.get(fullname, fullname)
        found = find_spec(f"iolaus.{meant}")
        if found is None:
            return None
        inside = found.submodule_search_locations
        spec = ModuleSpec(fullname, StandIn(found), origin=found.origin, is_package=inside is not None)
        spec.submodule_search_locations = inside
        return spec


class StandIn(Loader):
    """Gives the module that is meant in the place of a new one."""

    def __init__(self, meant: ModuleSpec) -> None:
        self.meant = meant

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself."""
        return import_module(self.meant.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run again; the import system has set the specification of the old name."""
        module.__spec__ = self.meant

    def get_code(self, fullname: str) -> CodeType | None:
        """What `python -m` runs."""
        return cast(InspectLoader, self.meant.loader).get_code(self.meant.name)


def keep_old_names() -> None:
    """Makes the old names work from now on, where no other package has them."""
    sys.meta_path.insert(0, OldNames(inner=True))
    sys.meta_path.append(OldNames(inner=False))
