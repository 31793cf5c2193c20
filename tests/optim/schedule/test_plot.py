"""Schedules drawn without training."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor, ImageDraw

from iolaus.runner.optim import ThreePhaseSchedule
from iolaus.runner.optim.schedule.plot import COLOURS, MARGIN, SIZE, draw_schedule

ROOT = Path(__file__).parents[3]


def test_the_drawing_shows_the_three_phases(tmp_path: Path) -> None:
    schedule = ThreePhaseSchedule(warmup_steps=16, cooldown_steps=32, max_steps=64)
    drawn = draw_schedule(schedule, 64, tmp_path / "new" / "schedule.png", base_lr=2e-3)
    lines = drawn.splitlines()
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


def test_the_picture_has_a_line_in_every_phase(tmp_path: Path) -> None:
    schedule = ThreePhaseSchedule(warmup_steps=0.2, cooldown_steps=0.3, max_steps=1000)
    draw_schedule(schedule, 1000, tmp_path / "schedule.png")
    image = Image.open(tmp_path / "schedule.png")
    assert (image.format, image.size) == ("PNG", SIZE)
    colours = {colour for _, colour in image.getcolors(10**6) or []}
    assert {ImageColor.getrgb(COLOURS[name]) for name in ("warmup", "training", "cooldown")} <= colours


def test_the_picture_marks_quarters_of_both_axes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: dict[str, tuple[float, float]] = {}
    lines: list[list[tuple[float, float]]] = []

    def noted(image: ImageDraw.ImageDraw, place: tuple[float, float], text: str, **_: object) -> None:
        texts[text] = place

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", noted)
    monkeypatch.setattr(ImageDraw.ImageDraw, "line", lambda _, ends, **__: lines.append(ends))
    draw_schedule(ThreePhaseSchedule(max_steps=101), 101, tmp_path / "schedule.png", base_lr=4e-3)
    left, top, right, bottom = MARGIN
    width, height = SIZE[0] - left - right, SIZE[1] - top - bottom
    rates = ["0.00e+00", "1.00e-03", "2.00e-03", "3.00e-03", "4.00e-03"]
    for part, (step, rate) in enumerate(zip(["0", "25", "50", "75", "100"], rates, strict=True)):
        level = top + height * (1 - part / 4)
        assert texts[step] == pytest.approx((left + width * part / 4, top + height + 8))
        assert texts[rate] == pytest.approx((left - 8, level))
        assert np.array(lines[part]) == pytest.approx(np.array([(left, level), (left + width, level)]))


def test_one_step_and_unbounded_schedules_can_be_drawn(tmp_path: Path) -> None:
    assert "constant" in draw_schedule(ThreePhaseSchedule(), 1, tmp_path / "one.png")
    with pytest.raises(ValueError, match="max_steps=0"):
        draw_schedule(ThreePhaseSchedule(), 0, tmp_path / "none.png")


def test_the_command_draws_a_config(tmp_path: Path) -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "runner.schedule",
            *arguments,
            "--png",
            str(tmp_path / "schedule.png"),
        ]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    done = call(
        "scheduler=cosine", "scheduler.warmup_steps=10", "trainer.max_steps=200", "optimizer.lr=0.004"
    )
    assert done.returncode == 0, done.stderr
    assert "4.00e-03" in done.stdout
    assert "cosine" in done.stdout
    assert Image.open(tmp_path / "schedule.png").size == SIZE
    wrong = call("scheduler.training_kind=cosin")
    assert wrong.returncode == 1
    assert "Did you mean 'cosine'?" in wrong.stderr
    assert "Traceback" not in wrong.stderr
