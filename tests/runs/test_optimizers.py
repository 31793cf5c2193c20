"""Every optimizer in a whole run: goes on bit for bit after a kill, and applies the scheduled rate to every group."""

import pytest

from tests.conftest import few_of
from tests.runs.test_train import Train, assert_same_run, continued, rows
from tiryns.runner.optim import OPTIMIZERS, ThreePhaseSchedule

FEW = ("adafactor", "adamw", "galore", "muon", "sophiah", "splus")
"""One of each kind of state; the others take their turn among the long tests."""

STEPS = 9
OFTEN = [
    f"trainer.max_steps={STEPS}",
    "trainer.validate_every=3",
    "checkpoint.every_steps=4",
    "checkpoint.keep_last=9",
]


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", few_of(sorted(OPTIMIZERS), FEW))
def test_resumed_run_is_bitwise_and_follows_the_schedule(run_here: Train, name: str) -> None:
    own = [
        *OFTEN, f"optimizer={name}", "optimizer.lr=0.002", "scheduler.warmup_steps=2",
        "scheduler.cooldown_steps=3",
    ]  # fmt: skip
    whole = run_here(*own)
    continued(whole, 4, "copy")
    resumed = run_here(*own, folder="copy")
    assert_same_run(whole, resumed, STEPS)
    schedule = ThreePhaseSchedule("linear", 2, 0.0, "constant", -1, 1.0, "inverse_sqrt", 3, 0.0, STEPS)
    logged = [row for row in rows(whole) if row["train/loss"]]
    groups = [key for key in logged[0] if key.startswith("optim/lr/")]
    assert groups
    for key in groups:
        rates = [float(row[key]) for row in logged]
        base = max(rates)
        assert base > 0
        assert rates == pytest.approx([base * schedule.factor(step) for step in range(STEPS)])
