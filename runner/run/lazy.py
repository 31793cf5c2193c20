"""Imports when they are needed, and quickly.

The names of our packages are imported on first use: those imported under `if TYPE_CHECKING:` in their `__init__.py`.
"""

import ast
import gc
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, elsewhere: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package; `elsewhere` has names of modules that the package may not import.

    Example:
        In the `__init__.py` of a package::

            if TYPE_CHECKING:
                from iolaus.runner.data.text.pretraining import PretrainingData
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
    """Imports within it are not searched for garbage, which a million new objects of libraries have next to none of.

    Where they bring one of `LIBRARIES`, what exists by then stays out of later collections as well, also out of those at
    the end of the process: modules last as long as it does.

    Example:
        >>> with many_imports():
        ...     import torch
    """
    before, enabled = [name in sys.modules for name in LIBRARIES], gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if [name in sys.modules for name in LIBRARIES] != before:
            gc.freeze()
        if enabled:
            gc.enable()
