"""Files, functions and folders stay small enough to be read at once."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

FILE, FUNCTION, FOLDER = 300, 60, 14
"""Lines of a file, statements of a function in lines, and files side by side in a folder."""

SOURCES = [
    path
    for top in ("conf", "runner", "tiryns", "hydra_plugins", "tests")
    for path in sorted((ROOT / top).rglob("*.py"))
]
HOLDS_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
FOLDERS = sorted({path.parent for path in SOURCES})


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a file, and how many lines its statements take behind signature and docstring."""
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        waiting += (part for part in ast.iter_child_nodes(node) if isinstance(part, HOLDS_STATEMENTS))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            yield node.name, (node.end_lineno or first.lineno) - first.lineno + 1


def test_files_are_found() -> None:
    assert len(SOURCES) > 400


def test_no_file_is_long() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in SOURCES}
    assert not {str(path): length for path, length in lengths.items() if length > FILE}


def test_no_function_is_long() -> None:
    found = [(path, *function) for path in SOURCES for function in functions(path)]
    assert not [f"{path}: {name} has {length} lines" for path, name, length in found if length > FUNCTION]


def test_no_folder_holds_many_files() -> None:
    assert not [folder for folder in FOLDERS if len(list(folder.glob("*.py"))) > FOLDER]


def test_every_package_says_what_it_holds() -> None:
    packages = (ROOT / "runner").rglob("__init__.py")
    assert not [path for path in packages if not ast.get_docstring(ast.parse(path.read_text()))]
