"""Runs on an energon data set, killed anywhere and resumed, have the weights of one never stopped."""

import random
from pathlib import Path

import pytest
import torch

from tests.conftest import run_program
from tests.launch.test_kill import killed_and_restarted, only_run, undisturbed
from tests.runs.test_train import assert_bitwise, losses, weights
from tests.support.in_process import tiryns_here
from tests.support.precision import PRECISION, rounding
from tests.support.processes import process
from tests.support.vision import SMALL
from tiryns.runner.checkpoints.files import entry_of
from tiryns.runner.data.demo.scenes import Scenes
from tiryns.runner.data.energon.prepare import prepare
from tiryns.runner.run import audit

ARGUMENTS = [
    "data=energon", "objective=vision_language", "module=vision_language", "data.vocab_size=300",
    "data.max_length=128", "data.micro_batch_size=2", "sampler.global_batch_size=8", "trainer=cpu",
    f"trainer.precision={PRECISION}", "trainer.log_every=1", "trainer.validate_every=11", "checkpoint.every_steps=3",
    "optimizer.lr=0.003",
    "module.max_new_tokens=3", "module.generated_samples=6", "data.shuffle_buffer_size=10", "resume=auto",
    "checkpoint.keep_last=99",
]  # fmt: skip
"""A run of seconds on a few drawn scenes, killed now and then."""

LLAVA = ["model=llava_tiny", *SMALL]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few drawn scenes as an energon data set."""
    folder = tmp_path_factory.mktemp("scenes")
    rows = Scenes("train", 90).export(folder)
    prepare(rows, folder / "images", folder / "set", None, 0.15, {}, samples_per_shard=20, seed=0)
    return folder / "set"


def check(tmp_path: Path, scenes: Path, kills: int, devices: int, workers: int, *overrides: str) -> Path:
    """A run killed and resumed against one never stopped; returns the latter's folder."""
    steps = 6 * kills + 10
    arguments = [
        *ARGUMENTS, *LLAVA, f"data.path={scenes}", f"data.num_workers={workers}", f"trainer.devices={devices}",
        f"trainer.max_steps={steps}", *overrides,
    ]  # fmt: skip
    (tmp_path / "killed").mkdir()
    whole = undisturbed(arguments, tmp_path / "whole", devices)
    draw = random.Random(100 * kills + 10 * devices + workers)
    killed = killed_and_restarted(arguments, tmp_path / "killed", kills, draw)
    assert audit.compare(whole.path, killed.path) is None
    assert audit.length(killed.path) == steps
    assert_bitwise(weights(whole, steps), weights(killed, steps))
    return whole.path


@pytest.mark.slow
def test_kill_leaves_no_trace_and_another_layout_is_refused(tmp_path: Path, scenes: Path) -> None:
    run = check(tmp_path, scenes, kills=1, devices=1, workers=2)
    checkpoint = sorted((run / "checkpoints").glob("step-*.ckpt"))[0]
    noted = entry_of(checkpoint, "resolved")
    assert (noted["layout"], noted["micro_batch_size"]) == ("packed", 2)
    done = tiryns_here(tmp_path / "whole", f"resume={checkpoint}", "data.num_workers=1")
    assert done.returncode == 1
    assert "data.num_workers was 2 and is 1" in done.stderr
    assert "set resume_changed_data=true" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["null", "12"])
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_kills_leave_no_trace(tmp_path: Path, scenes: Path, devices: int, workers: int, packing: str) -> None:
    check(tmp_path, scenes, 2, devices, workers, f"data.packing_buffer_size={packing}")


@pytest.mark.slow
def test_sharded_weights_learn_the_same_and_resume(tmp_path: Path, scenes: Path) -> None:
    arguments = [
        *ARGUMENTS, *LLAVA, f"data.path={scenes}", "data.num_workers=1", "trainer.max_steps=6",
        "trainer.devices=2",
    ]  # fmt: skip
    sharded = [*arguments, "trainer=fsdp", "trainer.accelerator=cpu"]
    run_program(*arguments, "trainer=ddp", "trainer.accelerator=cpu", "outputs=whole", cwd=tmp_path)
    run_program(*sharded, "outputs=sharded", cwd=tmp_path)
    checkpoint = only_run(tmp_path / "sharded").path / "checkpoints" / "step-00000003.ckpt"
    run_program(f"resume={checkpoint}", "outputs=resumed", cwd=tmp_path)
    whole, *others = (only_run(tmp_path / name) for name in ("whole", "sharded", "resumed"))
    for run in others:
        assert audit.compare(whole.path, run.path) is None
        assert losses(run) == pytest.approx(losses(whole), rel=rounding(1e-5, 1e-3))


@pytest.mark.slow
def test_other_number_of_ranks_is_refused_or_begins_the_stream_again(tmp_path: Path, scenes: Path) -> None:
    arguments = [*ARGUMENTS, *LLAVA, f"data.path={scenes}", "data.num_workers=0", "trainer.max_steps=6"]
    run_program(*arguments, "trainer.devices=2", cwd=tmp_path)
    checkpoint = only_run(tmp_path / "outputs").path / "checkpoints" / "step-00000003.ckpt"
    resumed = [f"resume={checkpoint}", "trainer.devices=1", "outputs=again"]
    done = run_program(*resumed, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "ranks was 2 and is 1" in done.stderr
    run_program(*resumed, "resume_changed_data=true", cwd=tmp_path)


@pytest.mark.slow
def test_ranks_that_share_a_replica_read_the_same(tmp_path: Path, scenes: Path) -> None:
    """Two replicas of two tensor-parallel ranks each, under the strategy of Lightning's that has a mesh."""
    program = Path(__file__).parents[1] / "data" / "energon" / "mesh.py"
    command = [
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", str(program), str(scenes), str(tmp_path),
    ]  # fmt: skip
    done = process(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [torch.load(tmp_path / f"rank-{rank}.pt") for rank in range(4)]
    assert [f["replica"] for f in found] == [0, 0, 1, 1]
    assert found[0]["names"] == found[1]["names"]
    assert found[2]["names"] == found[3]["names"]
    assert not set(found[0]["names"]) & set(found[2]["names"])
    assert found[0]["state"] == found[3]["state"], "every rank saves the streams of all replicas"
