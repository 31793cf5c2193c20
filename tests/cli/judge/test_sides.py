"""Pairs of runs that are compared."""

from types import SimpleNamespace
from typing import Any

import pytest

from tiryns.runner.cli.judge.sides import Replicate, pairs_of


@pytest.mark.parametrize(("precision", "told"), [("32-true", True), ("bf16-mixed", False), (None, False)])
def test_pairs_of_two_precisions_are_told(
    precision: str | None, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def run(found: str | None) -> Any:
        return SimpleNamespace(settings={"resolved.precision": found} if found else {})

    seed = Replicate(5)
    pairs = pairs_of({seed: run("bf16-mixed")}, {seed: run(precision)}, ["base", "change"])
    assert [pair[0] for pair in pairs] == [seed]
    assert ("the precision is part of the difference" in caplog.text) == told
