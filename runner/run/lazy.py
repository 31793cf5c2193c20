"""Imports modules on first use, and quickly.

A package of ours imports the names under `if TYPE_CHECKING:` in its `__init__.py` when they are first used.
"""

import ast
import atexit
import gc
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


def lazy_names(
    package: str, elsewhere: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package; `elsewhere` maps names to modules that its code may not import.

    Example:
        In the `__init__.py` of a package::

            if TYPE_CHECKING:
                from tiryns.runner.data.text.pretraining import PretrainingData
            else:
                __getattr__, __dir__ = lazy_names(__name__)
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        """Returns the module of each name, and the name in that module."""
        modules = {name: (module, name) for name, module in (elsewhere or {}).items()}
        for block in ast.parse(inspect.getsource(sys.modules[package])).body:
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
                for line in block.body:
                    if isinstance(line, ast.ImportFrom) and line.module:
                        modules |= {name.asname or name.name: (line.module, name.name) for name in line.names}
        return modules

    def get(name: str) -> Any:
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = homes()[name]
        return getattr(import_module(module), original)

    return get, lambda: list(sys.modules[package].__all__)


LIBRARIES = ("torch", "lightning")
"""The libraries that create the most objects in a process."""


@contextmanager
def many_imports() -> Iterator[None]:
    """Disables garbage collection in the block, as imports make a million objects and next to no garbage.

    If the block imports one of `LIBRARIES`, later collections skip all objects so far. Only the last one, at the end of
    the process, includes them, as libraries report objects that it misses. Also calls `metrics_in_parts`.

    Example:
        >>> with many_imports():
        ...     import torch
    """
    metrics_in_parts()
    before, was_enabled = [name in sys.modules for name in LIBRARIES], gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if [name in sys.modules for name in LIBRARIES] != before:
            gc.freeze()
            atexit.register(gc.unfreeze)
        if was_enabled:
            gc.enable()


METRICS = "torchmetrics"

PARTS: dict[str, tuple[str, ...]] = {
    "__about__": ("__version__",),
    "utilities": (),
    "metric": ("Metric",),
    "collections": ("MetricCollection",),
}
"""The modules of torchmetrics that Lightning needs, in an order in which they can be imported, with their public names.

Lightning uses only these names. For them Python would import all of torchmetrics, and scipy if it is installed.
"""


class _InParts(ModuleType):
    """A package that is imported in part. Another module is imported alone; any other name imports the whole package."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__class__ = ModuleType  # type: ignore[assignment]
        spec: Any = self.__spec__
        spec.loader.exec_module(self)
        return getattr(self, name)


def metrics_in_parts() -> None:
    """Imports `PARTS` of torchmetrics, and the rest on first use.

    Changes nothing if torchmetrics is imported already, or has a version that cannot be imported in parts.
    """
    spec = None if METRICS in sys.modules else find_spec(METRICS)
    if spec is None:
        return
    package = sys.modules[METRICS] = module_from_spec(spec)
    vars(package)["_logger"] = logging.getLogger(METRICS)  # which its modules take from it
    try:
        for name, public in PARTS.items():
            part = import_module(f"{METRICS}.{name}")
            vars(package).update({of: getattr(part, of) for of in public})
        package.__class__ = _InParts
    except (ImportError, AttributeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == METRICS]:
            del sys.modules[name]
