"""The global batches that a run skips: batches listed in its config, and batches that rewinds have added."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.order.timeline import Pairs, merge
from tiryns.runner.run.folder import Run

NOTED = "skipped"
"""Key of a run's rewinds in `status.json` and `manifest.json`. A rewind has the skipped `batches` [first, last], the
`step` of the alarm, and the step of the `checkpoint` to return to; `inherited` is set if a branch copied the rewind."""


def skipped_batches(folder: Path) -> Pairs:
    """Returns the global batches that the run in `folder` skips: pairs for `skip_batches`, sorted and without overlap.

    A fresh run with `skip_batches` set to them trains on the same batches in the same order.

    Example:
        >>> skipped_batches(Path("outputs/2026-11-03/12-30-11-ab12"))
        []
    """
    pairs = Run(folder).config.get("skip_batches") if (folder / "config.yaml").exists() else None
    return merge_skips(pairs, noted_rewinds(folder))


def merge_skips(pairs: Iterable[Sequence[int]] | None, notes: Iterable[dict[str, Any]]) -> Pairs:
    """Returns the global batches that a config and the recorded rewinds skip together."""
    return merge([*(pairs or []), *(note["batches"] for note in notes)])


def leave_out_rewinds(config: DictConfig, folder: Path) -> None:
    """Adds the batches that the rewinds of the run in `folder` have skipped to `skip_batches` of a config."""
    if notes := noted_rewinds(folder):
        config.skip_batches = merge_skips(config.get("skip_batches"), notes)


def noted_rewinds(folder: Path) -> list[dict[str, Any]]:
    """Returns the undamaged rewinds of a run from `status.json`, or from `manifest.json` if they are lost there."""
    notes = Run(folder).status.get(NOTED) or read_manifest(folder).get(NOTED)
    return [note for note in notes if _is_whole(note)] if isinstance(notes, list) else []


def _is_whole(note: object) -> bool:
    if not isinstance(note, dict) or not isinstance(note.get("batches"), list):
        return False
    return [type(n) for n in (*note["batches"], note.get("step"), note.get("checkpoint"))] == [int] * 4


def own_rewinds(folder: Path) -> list[dict[str, Any]]:
    """Returns the rewinds of a run, without rewinds inherited from its parent run."""
    return [note for note in noted_rewinds(folder) if not note.get("inherited")]


def rewinds_in_words(folder: Path) -> str | None:
    """Returns how often a run was rewound, and its last rewind in words; None without rewinds."""
    rewinds = noted_rewinds(folder)
    return f"{len(rewinds)}, the last: {described_rewind(rewinds[-1])}" if rewinds else None


def described_rewind(note: dict[str, Any]) -> str:
    """Returns a rewind in words."""
    first, last = note["batches"]
    start = (
        f"step {note['checkpoint']}" if note["checkpoint"] else "step 0, as no checkpoint lies before them"
    )
    return f"the loss diverged at step {note['step']}: global batches {first} to {last} are left out, from {start}"
