"""Flags before a subcommand are flags of it, as flags behind it are."""

from pathlib import Path

import pytest

from tests.support.in_process import tiryns_here
from tiryns.runner.cli.commands import command_first

MEANT = [
    (["--config-dir", "conf", "plan", "seed=3"], ["plan", "seed=3", "--config-dir", "conf"]),
    (["--config-dir=conf", "plan"], ["plan", "--config-dir=conf"]),
    (["-cd", "plan", "plan"], ["plan", "-cd", "plan"]),
    (["--json", "prepare", "corpus", "a.txt"], ["prepare", "corpus", "a.txt", "--json"]),
    (["--outputs", "there", "runs"], ["runs", "--outputs", "there"]),
    (["-m", "train", "seed=1,2"], ["train", "seed=1,2", "-m"]),
    (["--help", "predict"], ["predict", "--help"]),
    (["predict", "RUN", "train"], ["predict", "RUN", "train"]),
    (["--config-name", "plan", "seed=3"], ["--config-name", "plan", "seed=3"]),
    (["--rank", "plan"], ["--rank", "plan"]),
    (["seed=3", "--cfg", "job"], ["seed=3", "--cfg", "job"]),
    (["predcit", "train"], ["predcit", "train"]),
    ([], []),
]


@pytest.mark.parametrize(("typed", "meant"), MEANT, ids=lambda words: " ".join(words))
def test_flags_come_behind_the_command_that_they_stand_before(typed: list[str], meant: list[str]) -> None:
    assert command_first(typed) == meant


@pytest.mark.parametrize(
    "words", [["seed=3", "plan"], ["--json", "seed=3", "plan"], ["seed=3", "-m", "train"]]
)
def test_command_behind_settings_is_told_where_it_stands(tmp_path: Path, words: list[str]) -> None:
    done = tiryns_here(tmp_path, *words)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"error: the command {words[-1]!r} stands behind settings; expected it before"
    )
    assert done.stderr.count("\n") == 1


def test_config_folder_counts_before_a_subcommand_as_behind_it(tmp_path: Path) -> None:
    (tmp_path / "conf/experiment").mkdir(parents=True)
    (tmp_path / "conf/experiment/mine.yaml").write_text("# @package _global_\nseed: 1234\n")
    words = ["--cfg", "job", "experiment=mine"]
    before, behind = (
        tiryns_here(tmp_path, *some, *words)
        for some in (["--config-dir", "conf", "train"], ["train", "--config-dir", "conf"])
    )
    assert before == behind
    assert "seed: 1234" in before.stdout
    assert tiryns_here(tmp_path, "--name", "x*", "runs", "--outputs", ".").stdout == "no run under '.' fits\n"
