"""The words `seeds=5` and `folds=5` of a command."""

import re
from pathlib import Path

import pytest

from tests.support.in_process import refused
from tiryns.runner.sweeps.words import with_replicates


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["seeds=3"], ["-m", "seed=1,2,3"]),
        (["-m", "seeds=1"], ["-m", "seed=1"]),
        (["folds=2", "--multirun"], ["data.folds=2", "data.fold=1,2", "--multirun"]),
        (
            ["optimizer.lr=1,2", "seeds=2", "folds=2", "resume=auto"],
            ["-m", "optimizer.lr=1,2", "seed=1,2", "data.folds=2", "data.fold=1,2", "resume=auto"],
        ),
        (["seed=1,2", "data.fold=1"], ["seed=1,2", "data.fold=1"]),
    ],
)
def test_words_stand_for_sweeps(words: list[str], meant: list[str]) -> None:
    assert with_replicates(words) == meant


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["seeds=0"], "seeds=0: expected a whole number, 1 or more"),
        (["folds=1"], "folds=1: expected a whole number, 2 or more"),
        (["seeds=1,5"], "seeds=1,5: expected a whole number"),
        (["seeds=2", "seed=7"], "seeds=2 stands for seed=1,2: leave out seed=7"),
        (["folds=2", "++data.fold=1"], "leave out ++data.fold=1"),
        (["seeds=2", "seeds=3"], "seeds=2 stands for seed=1,2: leave out seeds=3"),
        (
            ["hydra/sweeper=optuna", "folds=2"],
            "folds=2 trains every value, but hydra/sweeper=optuna chooses",
        ),
    ],
)
def test_wrong_words_are_named(words: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        with_replicates(words)


def test_plan_of_seeds_is_answered_in_one_line(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Without Hydra's warning of a callback that has raised the error."""
    assert refused(tmp_path, "plan", "seeds=3") == (
        "error: mode=inspect is for one config: leave out -m, seeds=, folds= and the folder of a sweep, and give each "
        "setting one value\n"
    )
    assert not [warning for warning in recwarn.list if "Callback" in str(warning.message)]


def test_text_has_no_folds(tmp_path: Path) -> None:
    assert refused(tmp_path, "folds=3").splitlines()[-1] == (
        "error: folds are for labelled data, such as data=classification: text and images are not cut into folds"
    )
