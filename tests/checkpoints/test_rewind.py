"""A run folder that is taken back: which checkpoints stay, what its links name, and what is noted."""

import os
from pathlib import Path

import pytest
import torch

from tiryns.runner.checkpoints.callback import link
from tiryns.runner.checkpoints.rewind import rewind
from tiryns.runner.config.skipped import described_rewind, own_rewinds, skipped_batches
from tiryns.runner.run.folder import Run


def run_with(folder: Path, best: dict[int, int]) -> Run:
    """A run with a checkpoint for each step, and the step that was the best when it was saved."""
    run = Run(folder)
    run.checkpoint_dir.mkdir(parents=True)
    for step, best_step in best.items():
        state = {"global_step": step, "callbacks": {"Checkpoint": {"best_step": best_step}}}
        torch.save(state, run.checkpoint_dir / f"step-{step:08d}.ckpt")
    link(run.checkpoint_dir, "last.ckpt", max(best))
    link(run.checkpoint_dir, "best.ckpt", best[max(best)])
    run.update_status(step=max(best))
    return run


def links_of(run: Run) -> dict[str, str]:
    return {file.name: os.readlink(file) for file in run.checkpoint_dir.glob("*.ckpt") if file.is_symlink()}


def test_later_checkpoints_go_and_the_links_are_those_of_the_time(tmp_path: Path) -> None:
    run = run_with(tmp_path, {10: 10, 20: 10, 30: 30, 40: 30})
    note = rewind(run, step=45, first=25, skipped=[[3, 4], [41, 42]])
    assert note == {"batches": [27, 49], "step": 45, "checkpoint": 20}
    assert links_of(run) == {"last.ckpt": "step-00000020.ckpt", "best.ckpt": "step-00000010.ckpt"}
    assert len([*run.checkpoint_dir.glob("step-*.ckpt")]) == 2
    assert run.status["step"] == 20
    rewind(run, step=30, first=22, skipped=[[3, 4], [27, 49]])
    assert skipped_batches(run.path) == [[24, 55]]
    assert [own["step"] for own in own_rewinds(run.path)] == [45, 30]


def test_without_an_earlier_checkpoint_the_run_begins_again(tmp_path: Path) -> None:
    run = run_with(tmp_path, {10: -1})
    note = rewind(run, step=15, first=10, skipped=[])
    assert note == {"batches": [10, 15], "step": 15, "checkpoint": 0}
    assert "from step 0, as no checkpoint lies before them" in described_rewind(note)
    assert not [*run.checkpoint_dir.iterdir()]


def test_branch_goes_back_to_where_it_began_and_no_further(tmp_path: Path) -> None:
    run_with(tmp_path / "parent", {10: -1, 20: -1})
    branch = run_with(tmp_path / "branch", {30: -1})
    branch.update_status(branched_from=str(tmp_path / "parent" / "checkpoints" / "step-00000020.ckpt"))
    assert rewind(branch, step=35, first=15, skipped=[]) == {
        "batches": [21, 35],
        "step": 35,
        "checkpoint": 20,
    }


@pytest.mark.parametrize(
    "noted", ["[]", '"x"', '[{"batches": [1]}]', '[{"batches": [1, 2], "step": "3"}]', "[7]"]
)
def test_damaged_notes_leave_nothing_out(noted: str, tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text(f'{{"skipped": {noted}}}')
    assert skipped_batches(tmp_path) == []


def test_notes_are_read_from_the_manifest_where_the_status_is_lost(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"skipped": [{"batches": [4, 6], "step": 6, "checkpoint": 2}]}')
    (tmp_path / "config.yaml").write_text("skip_batches: [[7, 7], [1, 1]]")
    assert skipped_batches(tmp_path) == [[1, 1], [4, 7]]
