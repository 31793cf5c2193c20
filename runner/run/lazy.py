"""Imports modules on first use, and quickly.

The names of our packages are imported on first use: those imported under `if TYPE_CHECKING:` in their `__init__.py`.
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
    """Returns `__getattr__` and `__dir__` of a package; `elsewhere` has names of modules it may not import.

    Example:
        In the `__init__.py` of a package::

            if TYPE_CHECKING:
                from tiryns.runner.data.text.pretraining import PretrainingData
            else:
                __getattr__, __dir__ = lazy_names(__name__)
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        """Each name with its module and its name there."""
        found = {name: (module, name) for name, module in (elsewhere or {}).items()}
        for block in ast.parse(inspect.getsource(sys.modules[package])).body:
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
                for line in block.body:
                    if isinstance(line, ast.ImportFrom) and line.module:
                        found |= {name.asname or name.name: (line.module, name.name) for name in line.names}
        return found

    def get(name: str) -> Any:
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = homes()[name]
        return getattr(import_module(module), original)

    return get, lambda: list(sys.modules[package].__all__)


LIBRARIES = ("torch", "lightning")
"""Those that bring most objects into a process."""


@contextmanager
def many_imports() -> Iterator[None]:
    """Disables garbage collection for imports in the block: their million new objects hold next to no garbage.

    If the block imports one of `LIBRARIES`, all objects so far stay out of later collections too, until the process
    ends, as libraries report objects that the last collection misses. Of torchmetrics it imports what Lightning needs.

    Example:
        >>> with many_imports():
        ...     import torch
    """
    metrics_in_parts()
    before, enabled = [name in sys.modules for name in LIBRARIES], gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if [name in sys.modules for name in LIBRARIES] != before:
            gc.freeze()
            atexit.register(gc.unfreeze)
        if enabled:
            gc.enable()


METRICS = "torchmetrics"

PARTS: dict[str, tuple[str, ...]] = {
    "__about__": ("__version__",),
    "utilities": (),
    "metric": ("Metric",),
    "collections": ("MetricCollection",),
}
"""The modules of torchmetrics that Lightning needs, in an order in which they can be imported, with their public names.

Lightning takes these names, for which Python would import all of it, with scipy where that is installed.
"""


class _InParts(ModuleType):
    """A package that imports further modules one by one, and further names with the whole package."""

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
