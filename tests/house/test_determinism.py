"""Each promise of determinism on the page of proofs has tests; those of CONTRIBUTING have a quick and a long one."""

import ast
import re

import pytest

from tests.conftest import ROOT


def table(page: str, name: str) -> list[list[str]]:
    """The rows of a table between comments with its name."""
    between = page.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end {name} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in between.splitlines()[2:]]


PROMISES = table((ROOT / "docs" / "proof.md").read_text(), "promises")
CONTRIBUTING = table((ROOT / "CONTRIBUTING.md").read_text(), "quick and long")
SUBJECTS = (
    *("layout", "precision", "number of ranks", "hardware", "optimizer", "attention kernel", "compile_model"),
    *("loader workers", "dropout", "resumed", "killed", "stopped"),
)


def test_every_subject_has_a_promise() -> None:
    for subject in SUBJECTS:
        assert any(subject in change for change, *_ in PROMISES), subject


def test_every_promise_names_tests_and_nothing_else() -> None:
    """`test_docs.py` looks whether they exist."""
    for *_, tests in PROMISES:
        assert re.fullmatch(r"(`tests/[\w/]+\.py::test_\w+`(, )?)+", tests), tests


def decorators_of(test: str) -> list[str]:
    file, name = test.strip("`").split("::")
    tree = ast.parse((ROOT / file).read_text())
    [found] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return [*map(ast.unparse, found.decorator_list)]


@pytest.mark.parametrize("promise", CONTRIBUTING, ids=lambda promise: promise[0])
def test_promise_has_a_quick_and_a_long_test(promise: list[str]) -> None:
    _, quick, long = promise
    assert "pytest.mark.slow" not in decorators_of(quick)
    assert any("mark.slow" in decorator for decorator in decorators_of(long)), "or of some of its rows"
