"""Which runs `tiryns judge` trains: those that it lacks, as few as make the answer clear, and none twice."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.judge.folders import make_run, make_sweep
from tests.support.in_process import Done, tiryns_here
from tiryns.runner.cli import commands
from tiryns.runner.cli.judge.sides import comparison_folder, missing_seeds, train_sweep

LOSS = {"": 4.0, "optimizer=muon": 3.5, "optimizer.lr=0.5": 4.0}
"""What training gives with each setting, but for the seed's own share."""

Trained = list[tuple[str, list[int]]]


class Training:
    """Stands for `tiryns train -m`: makes finished runs at once, and notes what was asked for."""

    def __init__(self, interrupted_after: int = 10**6) -> None:
        self.asked: Trained = []
        self.left = interrupted_after

    def __call__(self, words: list[str]) -> None:
        """Makes the runs of a sweep."""
        train, flag, place, *given, seeds = words
        own = list({word.partition("=")[0]: word for word in given}.values())  # as Hydra does
        assert (train, flag) == ("train", "-m")
        folder = Path(place.removeprefix("hydra.sweep.dir=").strip("'"))
        name = next((word for word in own if word in LOSS), "")
        self.asked.append((name, [int(seed) for seed in seeds.removeprefix("seed=").split(",")]))
        for seed in self.asked[-1][1]:
            if not self.left:
                sys.exit(130)
            self.left -= 1
            loss = LOSS[name] + seed / 10
            if name == "optimizer.lr=0.5":  # no better and no worse
                loss += [0.01, -0.02, 0.03, 0.01, -0.01, 0.02, -0.03, -0.01][seed % 8]
            make_run(folder / str(len(list(folder.iterdir()))), seed, loss + seed % 3 / 50 * bool(name), own)


Start = Callable[..., Training]


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Puts a pretended training in the place of the real one."""

    def start(**given: int) -> Training:
        monkeypatch.setattr(commands, "main", found := Training(**given))
        return found

    return start


def judge(cwd: Path, *words: str) -> Done:
    return tiryns_here(cwd, "judge", *words)


MUON = ["--change", "optimizer=muon", "trainer.max_steps=60"]
FLAT = ["--change", "optimizer.lr=0.5", "trainer.max_steps=60"]


def test_training_ends_at_the_first_look_where_it_is_clear(tmp_path: Path, training: Start) -> None:
    asked = training().asked
    done = judge(tmp_path, *MUON, "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)["comparisons"][0]
    assert (found["answer"], found["clear_after"], len(found["pairs"])) == ("better", 6, 6)
    both = ["", "optimizer=muon"]
    assert asked == [(name, seeds) for seeds in ([1], [2, 3, 4, 5, 6]) for name in both]


@pytest.mark.slow
def test_answer_is_told_once_and_what_is_known_before_on_stderr(tmp_path: Path, training: Start) -> None:
    training()
    done = judge(tmp_path, *MUON)
    assert "is better than" in done.stdout
    assert "is better than" not in done.stderr
    done = judge(tmp_path, *FLAT, "--seeds", "7")
    assert done.stderr.count("Not clear after") == 1
    assert "Not clear after 6 pairs" in done.stderr
    assert "Not clear after 7 pairs" in done.stdout


def test_runs_whose_recipe_has_changed_since_are_trained_again(tmp_path: Path, training: Start) -> None:
    training()
    judge(tmp_path, *MUON)
    old = min(tmp_path.glob("outputs/*/*-judge/*/config.yaml"))
    old.write_text(f"# config_hash: of another recipe\n{old.read_text()}")
    asked = training().asked
    judge(tmp_path, *MUON)
    assert asked == [("", [1])]


def test_mistyped_metric_costs_no_second_run(tmp_path: Path, training: Start) -> None:
    asked = training().asked
    done = judge(tmp_path, *MUON, "--metric", "val/held_out/los")
    assert (done.returncode, asked) == (1, [("", [1])])
    assert "has no figure 'val/held_out/los'" in done.stderr
    assert "Did you mean 'val/held_out/loss'" in done.stderr
    judge(tmp_path, *MUON, "--metric", "perf/tokens_per_second")
    assert asked == [("", [1])]


@pytest.mark.slow
def test_training_goes_on_seed_by_seed_up_to_the_most(tmp_path: Path, training: Start) -> None:
    asked = training().asked
    assert judge(tmp_path, *FLAT, "--seeds", "9").returncode == 3
    assert [seeds for name, seeds in asked if name] == [[1], [2, 3, 4, 5, 6], [7], [8], [9]]
    several = training().asked
    assert judge(tmp_path, *FLAT, "--seeds", "13", "--at-once", "3").returncode == 3
    assert [seeds for name, seeds in several if name] == [[10, 11, 12], [13]]


@pytest.mark.slow
def test_command_that_was_killed_goes_on_and_repeats_nothing(tmp_path: Path, training: Start) -> None:
    training(interrupted_after=5)
    assert judge(tmp_path, *FLAT).returncode == 130
    (folder,) = tmp_path.glob("outputs/*/*-judge")
    assert missing_seeds(folder, ["trainer.max_steps=60"], range(1, 7)) == [5, 6]
    asked = training().asked
    judge(tmp_path, *FLAT)
    assert asked[:2] == [("", [5, 6]), ("optimizer.lr=0.5", [2, 3, 4, 5, 6])]
    assert len(list(folder.glob("*/status.json"))) == 16
    again = training().asked
    first = judge(tmp_path, *FLAT, "--json")
    assert (first.returncode, again) == (3, [])
    assert list(tmp_path.glob("outputs/*/*-judge")) == [folder]


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("words", "few", "enough"),
    [
        ([], 5, 6),
        (["--error", "0.01"], 8, 9),
        (["--change", "optimizer.lr=0.5"], 6, 7),
        (["--change", "optimizer.lr=0.5", "--error", "0.01"], 8, 10),
    ],
)
def test_seeds_that_cannot_be_clear_are_told_before_the_first_run(
    tmp_path: Path, training: Start, words: list[str], few: int, enough: int
) -> None:
    asked = training().asked
    done = judge(tmp_path, *MUON, *words, "--seeds", str(few))
    assert (done.returncode, asked) == (1, [])
    assert done.stderr.count("\n") == 1
    assert f"fewer than {enough} pairs" in done.stderr
    assert f"give --seeds {enough} or more, or --anyway" in done.stderr
    assert not list(tmp_path.glob("outputs/*/*/status.json"))
    judge(tmp_path, *MUON, *words, "--seeds", str(enough))
    assert asked, "the number that it offers is trained"


@pytest.mark.slow
def test_another_change_uses_the_runs_of_the_same_setting(tmp_path: Path, training: Start) -> None:
    training()
    judge(tmp_path, *MUON)
    asked = training().asked
    judge(tmp_path, *FLAT)
    assert [seeds for name, seeds in asked if name == ""] == [[7], [8]]
    others = training().asked
    judge(tmp_path, "--change", "optimizer=muon", "trainer.max_steps=61")
    assert others[0] == ("", [1])
    assert len(list(tmp_path.glob("outputs/*/*-judge"))) == 2


@pytest.mark.slow
def test_change_that_is_clear_trains_no_more_while_others_do(tmp_path: Path, training: Start) -> None:
    asked = training().asked
    done = judge(tmp_path, *MUON, *FLAT[:2], "--json")
    assert done.returncode == 3
    muon, flat = json.loads(done.stdout)["comparisons"]
    assert (muon["answer"], flat["answer"]) == ("better", "not clear")
    assert max(seed for name, seeds in asked if name == "optimizer=muon" for seed in seeds) == 7
    assert max(seed for name, seeds in asked if name == "optimizer.lr=0.5" for seed in seeds) == 8


@pytest.mark.slow
def test_sweep_that_is_there_gets_the_runs_that_it_lacks(tmp_path: Path, training: Start) -> None:
    asked, shared = training().asked, ["trainer.max_steps=60"]
    losses = {"": [4.1, 4.2, 4.3], "optimizer=muon": [3.6, 3.7]}
    make_sweep(tmp_path / "sweep", losses, shared)
    words = ["sweep", "--change", "optimizer=muon", "--against", "optimizer=adamw"]
    assert "optimizer=adamw: there is no finished run" in judge(tmp_path, *words).stderr
    make_sweep(tmp_path / "other", {"optimizer=adamw": [4.1, 4.2], "optimizer=muon": [3.6]}, shared)
    assert judge(tmp_path, "other", *words[1:], "--seeds", "6").returncode == 0
    assert asked == [("", [3, 4, 5, 6]), ("optimizer=muon", [2, 3, 4, 5, 6])]
    make_run(tmp_path / "other" / "99", 1, 4.0, ["optimizer=muon", "trainer.max_steps=7"])
    assert "do not share all other overrides" in judge(tmp_path, "other", *words[1:], "--seeds", "7").stderr


def test_run_that_fails_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(words: list[str]) -> None:
        sys.exit("1 of 1 jobs failed")

    monkeypatch.setattr(commands, "main", fail)
    done = judge(tmp_path, *MUON)
    assert done.returncode == 1
    assert "there is no finished run of seed 1" in done.stderr
    assert "1 of 1 jobs failed" in done.stderr


def test_wrong_setting_is_refused_before_anything_is_trained(tmp_path: Path, training: Start) -> None:
    asked = training().asked
    done = judge(tmp_path, "--change", "optimizer=muom", "--against", "optimizer=adamw")
    assert done.returncode == 1
    assert "muom" in done.stderr
    assert "gives seed itself" in judge(tmp_path, *MUON, "seed=3").stderr
    assert asked == []


def test_nonsense_is_refused_after_the_first_pair(tmp_path: Path, training: Start) -> None:
    asked = training().asked
    done = judge(tmp_path, "--change", "trainer.validation_batches=4", "trainer.max_steps=60")
    assert done.returncode == 1
    assert "so their figures do not measure the same" in done.stderr
    assert [seeds for _, seeds in asked] == [[1], [1]]


def test_words_of_a_sweep_are_those_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed: list[list[str]] = []
    monkeypatch.setattr(commands, "main", typed.append)
    train_sweep(Path("a folder/it's"), ["seed=1,2"], "judge")
    assert typed == [["train", "-m", "hydra.sweep.dir='a folder/it\\'s'", "seed=1,2"]]
    monkeypatch.chdir(tmp_path)
    folder = comparison_folder(["optimizer.lr=1e-3", "outputs=there", "hydra/launcher=ray"])
    assert folder.parts[0] == "there"
    assert comparison_folder(["outputs=there", "optimizer.lr=0.001"]) == folder
    make_run(folder / "0", 1, 4.0, ["optimizer.lr=0.001", "outputs=there"])
    assert missing_seeds(folder, ["optimizer.lr=1e-3", "outputs=there"], [1, 2]) == [2]
    assert missing_seeds(folder, ["optimizer.lr=1e-2", "outputs=there"], [1, 2]) == [1, 2]
    make_run(folder / "1", 2, 4.0, ["optimizer.lr=0.001", "outputs=there"], state="running")
    assert missing_seeds(folder, ["optimizer.lr=1e-3", "outputs=there"], [1, 2]) == [2]
