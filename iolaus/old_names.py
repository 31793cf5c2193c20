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
    "runner.checkpoint": "runner.checkpoints.callback",
    "runner.data.microbatches": "runner.loaders.microbatches",
    "runner.data.multi_epoch": "runner.loaders.multi_epoch",
    "runner.data.packing": "runner.order.packing",
    "runner.data.stdlib_tasks": "runner.data.demo.stdlib_tasks",
    "runner.data.stdlib_text": "runner.data.demo.stdlib_text",
    "runner.data.scenes": "runner.data.demo.scenes",
    "runner.loggers": "runner.logging.loggers",
    "runner.metrics": "runner.evaluation.metrics",
    "runner.models.packed_rows": "runner.models.packed.rows",
    "runner.trainer": "runner.loop.trainer",
}
"""Documented modules that have moved, by the names of version 0.1."""


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
        found = find_spec(f"iolaus.{MOVED.get(fullname, fullname)}")
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
