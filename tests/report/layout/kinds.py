"""A page of each kind: runs, a sweep, a comparison, phases, folds, and a judgement."""

from pathlib import Path
from typing import Any

from tests.cli.judge.folders import make_sweep
from tests.report.comparison.fold_runs import make_folds
from tests.report.pages import evaluated_run, evil_run, make_run, sweep, write_comparison
from tests.report.test_phases import phased
from tiryns.runner.cli.judge.answer import answer
from tiryns.runner.cli.judge.command import compare_settings
from tiryns.runner.cli.judge.measure import measure_of
from tiryns.runner.cli.judge.picture import write_page as write_judge_page
from tiryns.runner.cli.judge.sides import setting_of, that_have
from tiryns.runner.report.single import write_report
from tiryns.runner.run.folder import runs_in


def pages_of_each_kind(folder: Path) -> dict[str, Path]:
    """Writes the pages into a folder, and returns them by kind."""
    runs = sweep(folder / "sweep")
    long = make_run(folder / "long", steps=10_000)
    return {
        "run": write_report(evaluated_run(folder / "run")),
        "long": write_report(long),
        "sweep": write_comparison(folder / "sweep", runs),
        "comparison": write_comparison(folder, [*runs[:2], long]),
        "phases": write_report(phased(folder / "phases")),
        "folds": write_comparison(folder / "folds", make_folds(folder / "folds")),
        "evil": write_report(evil_run(folder / "evil")),
        "judge": write_judge_page(
            folder / "judge.html", judged_pairs(folder / "pairs"), "muon and lion against adamw"
        ),
    }


def judged_pairs(folder: Path) -> dict[str, Any]:
    """The answer on two changes, one of which is clear."""
    base = [4.0, 4.2, 3.9, 4.1, 4.3, 4.05, 4.15, 3.95]
    drops = [0.11, 0.09, 0.1, 0.12, 0.08, 0.1, 0.11, 0.09]
    settings = {"optimizer=adamw": base, "optimizer=muon": [b - d for b, d in zip(base, drops, strict=True)]}
    make_sweep(folder, settings | {"optimizer=lion": [b + d - 0.1 for b, d in zip(base, drops, strict=True)]})
    sides = [setting_of(f"optimizer={name}") for name in ("adamw", "muon", "lion")]
    compared = compare_settings(sides, lambda one: that_have(runs_in(folder), one.words))
    return answer(compared, [measure_of(compared[0].pairs, None)], 0.05)
