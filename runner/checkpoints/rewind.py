"""Takes a run folder back to a checkpoint before its loss diverged, and records the global batches to skip."""

from tiryns.runner.checkpoints import callback
from tiryns.runner.checkpoints.files import delete_checkpoint, entry_of
from tiryns.runner.config.skipped import NOTED, noted_rewinds
from tiryns.runner.order.timeline import Pairs, number_of
from tiryns.runner.run.folder import Run


def rewind(folder: Run, step: int, first: int, skipped: Pairs) -> dict[str, object]:
    """Skips the global batches of steps `first` to `step`; these steps are counted without the batches already `skipped`.

    Deletes checkpoints from `first` on. The links become as they were when the newest remaining checkpoint was
    saved. The resumed training cuts the logs. A branch cannot go back beyond the checkpoint it began with. Returns the
    record, as `runner.config.skipped` describes it.
    """
    files = [path for path in folder.checkpoint_dir.glob("*.ckpt") if not path.is_symlink()]
    late = [path for path in files if callback.step_of(path) >= first]
    for path in sorted(late, key=callback.step_of, reverse=True):  # a rewind that is killed is done again
        delete_checkpoint(path)
    start = callback.checkpoint_to_resume(folder, None)
    start_step = start.step if start else 0
    for path in folder.checkpoint_dir.glob("phase-*.ckpt"):
        if not path.exists():
            path.unlink()
    newest = callback.newest_checkpoint(folder.checkpoint_dir)
    callbacks = (entry_of(newest.path, "callbacks") or {}) if newest else {}
    best = callbacks.get("Checkpoint", {}).get("best_step", -1)
    for name, target_step in (("last.ckpt", newest.step if newest else -1), ("best.ckpt", best)):
        (folder.checkpoint_dir / name).unlink(missing_ok=True)
        if (folder.checkpoint_dir / callback.file_name(target_step)).exists():
            callback.link(folder.checkpoint_dir, name, target_step)
    batches = [number_of(max(first, start_step + 1), skipped), number_of(step, skipped)]
    note = {"batches": batches, "step": step, "checkpoint": start_step}
    folder.update_status(step=start_step, **{NOTED: [*noted_rewinds(folder.path), note]})
    return note
