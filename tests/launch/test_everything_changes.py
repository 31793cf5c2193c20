"""A run in which everything changes with the step, killed again and again."""

from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.launch.test_kill import without_trace

KILLS = 10
STEPS = 8 * KILLS + 20
CHANGING = [
    *TINY, "data=mixture", "data.max_length=32", "data.num_workers=1", "sampler.global_batch_size=8",
    "objective.final_mlm_probability=0.15", "model=modernbert_tiny", "model.dropout=0.1", "module.ema=0.9",
    "optimizer.weight_decay=0.1", "scheduler.warmup_steps=0.1",
    "phases=[{name: pretraining, share: 0.5, sampler: {warmup_from: 2, warmup_steps: 0.4}}, "
    "{name: extension, share: 0.3, data: {max_length: 64}, sampler: {global_batch_size: 4}, "
    "model: {rope_theta: 20000}, optimizer: {lr: 5e-4}}, "
    "{name: decay, share: 0.2, data: {max_length: 64, mixture: {prose: 1, code: 3}}, "
    "objective: {mlm_probability: 0.2, final_mlm_probability: 0.1}, model: {rope_theta: 20000}, "
    "optimizer: {weight_decay: 0.01}, scheduler: {warmup_steps: 0, cooldown_steps: 0.9}}]",
    "trainer.validate_every=15", "checkpoint.every_steps=3", "resume=auto", f"trainer.max_steps={STEPS}",
]  # fmt: skip


@pytest.fixture
def changing(tmp_path: Path, text_file: Path) -> list[str]:
    code = tmp_path / "code.txt"
    code.write_text("\n\n".join(f"def f{n}(x):\n    return x * {n} + {n % 7}" for n in range(200)))
    source = (
        f"data.mixture={{prose: {{source: {text_file}, weight: 3}}, code: {{source: {code}, weight: 1}}}}"
    )
    return [*(word for word in CHANGING if not word.startswith("data.source")), source]


@pytest.mark.slow
def test_ten_kills_leave_no_trace_on_two_ranks(changing: list[str], tmp_path: Path) -> None:
    without_trace(changing, tmp_path, STEPS, devices=2, kills=KILLS)
