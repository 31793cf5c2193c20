"""Refuses private names of libraries outside `runner/patches`, as a part of `make check`.

Private is a module, name or attribute with one leading underscore. What a class of ours takes from a base class
(`self._x`, `super()._x`) and what this project defines itself is its own. Code in `runner/models/architectures` is
exported with a model, in the form that transformers asks for, and can import nothing of this project.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = ("conf", "hydra_plugins", "tiryns", "runner")
OWN = ("conf", "hydra_plugins", "tiryns", "runner", "tests")
EXCEPT = ("runner/patches/", "runner/models/architectures/")

DOCUMENTED = frozenset(("_asdict", "_exit", "_fields", "_make", "_replace"))
"""Names with an underscore that Python documents: of named tuples, and of `os`."""

ASKING = ("delattr", "getattr", "hasattr", "setattr")


def files(root: Path) -> list[Path]:
    """Returns the files of Python of the product; links lead to the same ones."""
    found = (path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py")))
    return [path for path in found if path.resolve() == path]


def offences(root: Path) -> Iterator[str]:
    """Yields each private name of a library in the product, with file and line."""
    trees = {path.relative_to(root).as_posix(): ast.parse(path.read_text()) for path in files(root)}
    own = {name for tree in trees.values() for name in _defined(tree)} | DOCUMENTED
    for path, tree in trees.items():
        if not path.startswith(EXCEPT):
            yield from (f"{path}:{line}: {name}" for line, name in _private(tree, own))


def _private(tree: ast.AST, own: Iterable[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names, level=0) if module.split(".")[0] not in OWN:
                yield from (
                    (node.lineno, f"{module}.{n.name}") for n in names if _has_private(f"{module}.{n.name}")
                )
            case ast.Import(names=names):
                yield from ((node.lineno, n.name) for n in names if _has_private(n.name))
            case ast.Attribute(value=value, attr=name) if _is_private(name) and name not in own:
                if not _is_own_object(value):
                    yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Name(id=asks), args=[value, ast.Constant(value=str(name)), *_]):
                if asks in ASKING and _is_private(name) and name not in own and not _is_own_object(value):
                    yield node.lineno, ast.unparse(node)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name.strip("_") != ""


def _has_private(path: str) -> bool:
    return any(_is_private(part) for part in path.split("."))


def _is_own_object(value: ast.expr) -> bool:
    """Whether an attribute is one of the object or class itself, or of its base class."""
    match value:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
    return False


def _defined(tree: ast.AST) -> Iterator[str]:
    """Yields the names that a file defines: functions, classes, variables, and attributes of `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name


if __name__ == "__main__":
    if found := list(offences(ROOT)):
        advice = (
            "use what the library documents, or give it a file in runner/patches with its reason and a test"
        )
        sys.exit("\n".join(["private names of libraries:", *found, advice]))
