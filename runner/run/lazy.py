"""Packages whose names are imported on first use: those imported under `if TYPE_CHECKING:` in their `__init__.py`."""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, elsewhere: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    Args:
        package: Its `__name__`.
        elsewhere: Further names, with modules that the package may not import.

    Example:
        In the `__init__.py` of a package::

            if TYPE_CHECKING:
                from iolaus.runner.data.text.pretraining import PretrainingData
            else:
                __getattr__, __dir__ = lazy_names(__name__)
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        further = {name: (home, name) for name, home in (elsewhere or {}).items()}
        return further | dict(_typed_imports(package))

    def get(name: str) -> Any:
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, original = homes()[name]
        return getattr(import_module(home), original)

    return get, lambda: list(sys.modules[package].__all__)


def _typed_imports(package: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names that a package imports for type checkers alone, with their modules and names there."""
    for block in ast.parse(inspect.getsource(sys.modules[package])).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and line.module:
                    for name in line.names:
                        yield name.asname or name.name, (line.module, name.name)
