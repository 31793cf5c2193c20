"""Private names of libraries stay in `runner/patches`, and the rule that says so finds each way to use one."""

from pathlib import Path

import pytest

from tests.house.code.private_names import ROOT, offences


@pytest.mark.slow
def test_private_names_of_libraries_stay_in_patches() -> None:
    assert list(offences(ROOT)) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from hydra._internal.utils import get_args_parser", "hydra._internal.utils.get_args_parser"),
        ("from torch.utils import _pytree", "torch.utils._pytree"),
        ("import torch._dynamo", "torch._dynamo"),
        ("def _own(node): return node._get_node('a')", "node._get_node"),
        ("trainer.fit_loop._planted = 1", "trainer.fit_loop._planted"),
        ("getattr(loader, '_iterator', None)", "getattr(loader, '_iterator', None)"),
    ],
)
def test_planted_violation_is_found(line: str, found: str, tmp_path: Path) -> None:
    for folder in ("runner", "runner/patches"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "planted.py").write_text(f"{line}\n")
    assert list(offences(tmp_path)) == [f"runner/planted.py:1: {found}"]


@pytest.mark.parametrize(
    "line",
    [
        "row._replace(a=1)",
        "os._exit(1)",
        "class A:\n    def f(self): return self._of_base, super()._of_base",
        "def _own(): return module._own()",
        "from tiryns.runner.build import _value",
        "node.__class__",
        "_, __ = pair",
    ],
)
def test_own_and_documented_names_are_left_alone(line: str, tmp_path: Path) -> None:
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner" / "mine.py").write_text(f"{line}\n")
    assert list(offences(tmp_path)) == []
