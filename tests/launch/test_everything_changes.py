"""A run in which everything changes with the step, killed again and again, or with nodes that come and go."""

import random
import signal
from pathlib import Path

import pytest

from tests.conftest import TINY, train_here
from tests.launch.test_kill import killed_and_restarted, only_run, undisturbed, without_trace
from tests.runs.test_train import losses, rows
from tests.support.processes import assert_nothing_left, ranks_in, start, wait_for_steps
from tiryns.runner.run import audit

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


@pytest.mark.slow
def test_ten_kills_and_other_numbers_of_ranks_leave_the_order(changing: list[str], tmp_path: Path) -> None:
    whole = undisturbed([*changing, "trainer.devices=1"], tmp_path / "whole", devices=1)
    (tmp_path / "killed").mkdir()
    killed = killed_and_restarted(changing, tmp_path / "killed", KILLS, random.Random(26), devices=(2, 1))
    assert audit.compare(whole.path, killed.path) is None
    assert audit.length(killed.path) == STEPS
    last, other = (float(rows(run)[-1]["val/mixture/loss"]) for run in (whole, killed))
    assert other == pytest.approx(last, rel=1e-3)


@pytest.mark.slow
def test_nodes_that_come_and_go_leave_the_curve_of_a_run_with_everything_on(
    changing: list[str], text_file: Path, tmp_path: Path
) -> None:
    """Four times a second node joins; in turn the first node is told to end, killed, or one of two stays behind."""
    sizes = [
        "data.max_length=32",
        "model=modernbert_tiny",
        "trainer.precision=32-true",
        "trainer.max_steps=2",
    ]
    teacher = train_here(tmp_path / "teacher", text_file, *sizes)
    words = [
        *changing, "trainer.precision=32-true", "trainer.num_nodes=1:2", "trainer.max_restarts=99",
        "callback=[default,plateau]", "trainer.timeout=20", f"data.tokenizer={teacher.path / 'model'}",
        f"objective.teacher={teacher.path}", "allowed_targets=[tests]",
    ]  # fmt: skip
    plain = [word for word in words if not word.startswith("trainer.num_nodes")]
    whole = undisturbed([*plain, "trainer.devices=1"], tmp_path / "whole", devices=1)
    cwd, gates, stops = tmp_path / "elastic", tmp_path / "gates", [*range(6, 97, 12)]
    gates.mkdir()
    words.append(
        f"+callback.gate={{_target_: tests.support.callbacks.Gate, folder: {gates}, steps: {stops}}}"
    )
    nodes = [start(words, cwd)]
    for end in [signal.SIGTERM, signal.SIGKILL] * 2:
        wait_for_steps(nodes[-1], cwd, stops.pop(0))
        nodes.append(start(words, cwd))
        wait_for_steps(nodes[-1], cwd, stops[0])
        assert set(ranks_in(cwd)) == {0, 1}
        nodes[-2].send_signal(end)
        (gates / str(stops.pop(0))).touch()
        nodes[-2].wait(timeout=120)
    assert nodes[-1].wait(timeout=600) == 0, (cwd / "output.txt").read_text()[-3000:]
    assert_nothing_left(cwd)
    run = only_run(cwd / "outputs")
    assert audit.compare(whole.path, run.path) is None
    assert audit.length(run.path) == STEPS
    assert losses(run) == pytest.approx(losses(whole), rel=1e-4)
    assert float(rows(run)[-1]["val/mixture/loss"]) == pytest.approx(
        float(rows(whole)[-1]["val/mixture/loss"]), rel=1e-4
    )
    assert "another node joins" in (cwd / "output.txt").read_text()
