"""What this process and its ranks have in their environment."""

import os

import pytest

from tiryns.runner.launch.processes import SPINS, quiet_threads


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": SPINS}),
        ({"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_idle_threads_spin_for_microseconds_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: dict[str, str]
) -> None:
    environment = dict(given)
    monkeypatch.setattr(os, "environ", environment)

    quiet_threads()

    assert environment == expected
