"""Each promise of determinism on the page of proofs has tests, and they exist."""

import ast
import re

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "proof.md").read_text()
PROMISES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("<!-- promises -->\n")[2]
    .partition("<!-- end promises -->")[0]
    .splitlines()[2:]
]
SUBJECTS = (
    *("layout", "precision", "number of ranks", "hardware", "optimizer", "attention kernel", "compile_model"),
    *("loader workers", "dropout", "resumed", "killed", "stopped"),
)


def test_every_subject_has_a_promise() -> None:
    for subject in SUBJECTS:
        assert any(subject in change for change, *_ in PROMISES), subject


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise[0])
def test_every_promise_names_tests_that_exist(promise: list[str]) -> None:
    *_, tests = promise
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
    assert named
    assert not re.sub(r"`[^`]+`|[, ]", "", tests), "nothing but tests"
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
