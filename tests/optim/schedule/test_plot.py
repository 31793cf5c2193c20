"""Schedules drawn without training."""

from pathlib import Path

import pytest

from tests.support.in_process import refused, tiryns_here
from tiryns.runner.optim import ThreePhaseSchedule
from tiryns.runner.optim.schedule.plot import in_characters, numbers


def test_the_drawing_shows_the_three_phases() -> None:
    schedule = ThreePhaseSchedule(warmup_steps=16, cooldown_steps=32, max_steps=64)
    lines = in_characters(numbers(schedule, 64, base_lr=2e-3))
    plot = [line.split("│")[1].ljust(64) for line in lines[:10]]
    heights = [sum(row[column] == "█" for row in plot) for column in range(64)]
    assert heights[0] == 0
    assert heights[:17] == sorted(heights[:17])
    assert heights[16:33] == [10] * 17
    assert heights[32:] == sorted(heights[32:], reverse=True)
    assert lines[0].startswith(" 2.00e-03")
    assert [line.split()[:4] for line in lines[-3:]] == [
        ["warm-up", "linear", "0", "to"],
        ["training", "constant", "16", "to"],
        ["cool-down", "linear", "32", "to"],
    ]


def test_one_step_and_unbounded_schedules_can_be_drawn() -> None:
    assert "constant" in "\n".join(in_characters(numbers(ThreePhaseSchedule(), 1)))
    with pytest.raises(ValueError, match="max_steps=0"):
        numbers(ThreePhaseSchedule(), 0)


def test_the_command_draws_a_config(tmp_path: Path) -> None:
    words = ["scheduler=cosine", "scheduler.warmup_steps=10", "trainer.max_steps=200", "optimizer.lr=0.004"]
    done = tiryns_here(tmp_path, "schedule", *words)
    assert done.returncode == 0, done.stderr
    assert "4.00e-03" in done.stdout
    assert "cosine" in done.stdout
    assert not list(tmp_path.iterdir()), "drawing writes nothing"
    own = tmp_path / "configs" / "experiment" / "mine.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("# @package _global_\noptimizer: {lr: 0.007}\n")
    mine = tiryns_here(tmp_path, "schedule", "--config-dir", "configs", "experiment=mine")
    assert "7.00e-03" in mine.stdout
    assert "Did you mean 'cosine'?" in refused(tmp_path, "schedule", "scheduler.training_kind=cosin")
