"""Compares what two runs have computed: order, loss, weights and optimizer state of each step that both recorded."""

from collections.abc import Iterable
from contextlib import suppress
from math import inf, isfinite
from pathlib import Path
from typing import Any

from tiryns.runner.cli.reproduce.rebuilding import Recorded
from tiryns.runner.manifest.differences import LEVELS, NUMERIC, Difference, differences
from tiryns.runner.manifest.inputs import Manifest
from tiryns.runner.manifest.steps import Step
from tiryns.runner.run.audit import FILE_NAME as ORDER
from tiryns.runner.run.audit import compare as compare_orders

IDENTICAL, TO_ROUNDING, DIFFERENT = "identical", "equal to rounding", "different"

ROUNDING = {"32-true": 1e-3, "64-true": 1e-6}
"""Largest relative difference of a loss that another order of summation can cause, by precision."""

ROUNDING_OF_HALF = 3e-2
"""The same limit for 16-bit precisions."""

HOLD_TIMES = ("model/README.md",)
"""Files of a model that differ between equal runs: they hold times or paths."""

MODEL = "model/model.safetensors"

UNKNOWN = (
    "nothing that manifests record: code that draws from a generator, nondeterministic operations, hardware"
)

COMPUTED = ("computed", "packages", "machine")
"""Levels whose differences change how the results are computed, but not which results are computed."""

Report = dict[str, Any]
"""A verdict and its evidence, by name."""


def compare(then: Recorded, now: Recorded) -> Report:
    """Returns the verdict on a rebuilt run (`now`) with its evidence; raises ValueError if the runs share no step."""
    (before, old_steps, old), (after, new_steps, new) = then, now
    steps = {step.step: step for step in new_steps}
    pairs = [(step, steps[step.step]) for step in old_steps if step.step in steps]
    if not pairs:
        raise ValueError("no step was recorded by both runs: give the same callback.manifest.every")
    first = _first_difference(pairs, old, new)
    loss = _largest_loss_difference(pairs)
    whole = old_steps[-1].step == new_steps[-1].step
    same, other = _files(before, after) if whole else ([], [])
    reasons = [] if first is None and not other else _reasons(first, before, after)
    verdict = IDENTICAL if first is None and not other else DIFFERENT
    small = loss["relative"] <= ROUNDING.get(str(before["resolved"].get("precision")), ROUNDING_OF_HALF)
    # other ways to compute the same leave losses near, another precision does not
    same_made = all(one.part in COMPUTED and not one.text.startswith("precision ") for one in reasons)
    if first is not None and first["what"] != "order" and small and same_made:
        verdict = TO_ROUNDING
    return {
        "verdict": verdict, "steps": {"compared": len(pairs), "last": pairs[-1][0].step, "whole": whole},
        "first_difference": first, "largest_loss_difference": loss,
        "largest_weight_difference": _weights(old, new) if whole and MODEL in other else None,
        "files": {"identical": same, "different": other}, "reasons": [str(reason) for reason in reasons],
    }  # fmt: skip


def describe(report: Report) -> list[str]:
    """Returns the lines of a report, the verdict first."""
    steps, first, loss = report["steps"], report["first_difference"], report["largest_loss_difference"]
    number = f"{steps['compared']} {'step' if steps['compared'] == 1 else 'steps'}"
    lines = [f"{report['verdict']}: {number} compared, the last is {steps['last']:,}"]
    same, other = report["files"]["identical"], report["files"]["different"]
    if report["verdict"] == IDENTICAL:
        lines.append("  to the bit: order, loss, weights and optimizer state of these steps")
    if same:
        lines.append(f"  identical files: {', '.join(same)}")
    if other:
        lines.append(f"  files that differ: {', '.join(other)}")
    if first:
        since = f"; equal up to step {first['after']:,}" if first["after"] else ""
        lines.append(f"  first difference: {first['what']} at step {first['step']:,}{since}")
        largest = f"{loss['absolute']:.3g} ({loss['relative']:.2g} of it) at step {loss['step']:,}"
        lines.append(f"  largest difference of a loss: {largest}")
    if (weights := report["largest_weight_difference"]) is not None:
        lines.append(f"  largest difference of a weight: {weights:.3g}")
    if report["verdict"] != IDENTICAL:
        lines.append("  most likely because of:")
        lines += [f"    {reason}" for reason in report["reasons"] or [UNKNOWN]]
    return lines


def _first_difference(
    pairs: Iterable[tuple[Step, Step]], old: Path | None, new: Path | None
) -> Report | None:
    """Returns the first different step, what differs, and the last recorded step before it (0: none); None if equal."""
    after = 0
    for then, now in pairs:
        if then != now:
            parts = (("order", then.order, now.order), ("loss", then.loss, now.loss))
            part = next((name for name, was, is_now in parts if was != is_now), None)
            part = part or ("weights" if then.states[:1] != now.states[:1] else "optimizer state")
            step = then.step
            with suppress(ValueError):  # a run without an order log
                if part == "order" and old and new and (very_first := compare_orders(old, new)):
                    step = very_first.step
            return {"step": step, "what": part, "after": min(after, step - 1)}
        after = then.step
    return None


def _largest_loss_difference(pairs: Iterable[tuple[Step, Step]]) -> dict[str, float]:
    largest = {"step": 0, "absolute": 0.0, "relative": 0.0}
    for then, now in pairs:
        if "-" in (then.loss, now.loss) or then.loss == now.loss:
            continue
        was, is_now = float(then.loss), float(now.loss)
        difference = abs(is_now - was)
        relative = difference / max(abs(was), 1e-12) if isfinite(difference) else inf
        if relative > largest["relative"]:
            largest = {"step": then.step, "absolute": difference, "relative": relative}
    return largest


def _files(before: Manifest, after: Manifest) -> tuple[list[str], list[str]]:
    was, is_now = (one.get("outputs", {}) for one in (before, after))
    names = [name for name in was if name.startswith(("model/", "predictions")) or name == ORDER]
    both = [name for name in names if name in is_now and name not in HOLD_TIMES]
    same = [name for name in both if was[name] == is_now[name]]
    return same, [name for name in both if name not in same]


def _weights(old: Path | None, new: Path | None) -> float | None:
    """Returns the largest absolute difference of a weight between two exported models; None without an equal shape."""
    files = [folder / MODEL for folder in (old, new) if folder is not None]
    if len(files) < 2 or not all(file.is_file() for file in files):
        return None
    from safetensors.torch import load_file

    before, after = map(load_file, files)
    both = [(before[n], after[n]) for n in before if n in after and before[n].shape == after[n].shape]
    return max((float((a.double() - b.double()).abs().max()) for a, b in both), default=None)


def _reasons(first: Report | None, before: Manifest, after: Manifest) -> list[Difference]:
    """Returns possible causes of the difference, the likeliest first; packages that compute nothing come last."""
    causes = differences(before, after, LEVELS)
    if first is not None and first["what"] == "order":
        # Sums cannot change it, nor ranks but for that of a stream
        causes = [one for one in causes if one.part not in ("computed", "machine")] or causes
    if any(one.part == "setting" for one in causes):  # which the order follows from
        causes = [one for one in causes if not one.text.startswith("order.")]
    return sorted(causes, key=lambda one: one.part == "packages" and not one.text.startswith(NUMERIC))
