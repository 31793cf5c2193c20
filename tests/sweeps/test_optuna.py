"""A search: what it tries, that nothing is tried twice however often it is killed, and that failures end nothing."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from tests.conftest import ROOT, TINY, run_program
from tests.report.pages import read
from tests.support.in_process import tiryns_here
from tests.support.processes import warm_process
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps.optuna import search_space
from tiryns.runner.sweeps.study import STUDY, open_storage, repair

CHEAP = '''
import math, os, signal, sys
from pathlib import Path
import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf
from tiryns import conf
from tiryns.runner.run.folder import Run
from tiryns.runner.launch.resume import saved_overrides
from tiryns.runner.sweeps.sweeper import register_plugins, sweep_folder

def task(config):
    """A parabola over the logarithm of the rate; notes every start, and dies where it is told to."""
    folder = Run(Path(HydraConfig.get().runtime.output_dir))
    with folder.lock(), folder.record(config, list(HydraConfig.get().overrides.task)):
        with open("started.txt", "a") as file:
            file.write(folder.path.name + "\\n")
        if config.seed == 7:
            raise ValueError("seven never works")
        if os.environ.get("DIE_AT") == folder.path.name:
            os.kill(os.getpid(), signal.SIGKILL)
        value = (math.log10(config.optimizer.lr) + 2) ** 2 if config.seed != 8 else math.nan
        folder.end("done", results={"objective": value})
    return value

sys.argv[1:] = saved_overrides(sys.argv[1:])
OmegaConf.register_new_resolver("sweep_folder", sweep_folder, replace=True)
register_plugins()
hydra.main(version_base="1.3", config_path="pkg://tiryns.conf", config_name="config")(task)()
'''
"""A job that costs nothing, in place of a training."""

RATE = "optimizer.lr=tag(log, interval(1e-5, 1))"


def cheap(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (cwd / "cheap.py").write_text(CHEAP)
    return warm_process("-m", "cheap", "-m", "hydra/sweeper=optuna", *arguments, cwd=cwd, **environment)


def study_in(cwd: Path) -> optuna.Study:
    (folder,) = cwd.glob("outputs/*/*-sweep")
    return optuna.load_study(study_name=STUDY, storage=open_storage(str(folder / "study.journal")))


def started(cwd: Path) -> list[int]:
    return [int(line) for line in (cwd / "started.txt").read_text().split()]


def test_killed_search_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    arguments = [RATE, "resume=auto", "hydra.sweeper.n_trials=12", "hydra.sweeper.startup_trials=4", "seed=3"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    done = cheap(*arguments, cwd=whole)
    assert done.returncode == 0, done.stderr
    assert cheap(*arguments, cwd=killed, DIE_AT="2").returncode == -signal.SIGKILL
    assert cheap(*arguments, cwd=killed, DIE_AT="7").returncode == -signal.SIGKILL
    done = cheap(*arguments, cwd=killed)
    assert done.returncode == 0, done.stderr
    assert started(whole) == list(range(12))
    assert started(killed) == sorted([*range(12), 2, 7]), "only what was killed has begun again"
    trials = [study_in(cwd).get_trials() for cwd in (whole, killed)]
    assert [t.params for t in trials[0]] == [t.params for t in trials[1]]
    assert [t.value for t in trials[0]] == [t.value for t in trials[1]]
    assert min(t.value or 0 for t in trials[0]) < 0.1
    assert "the best is" in done.stdout
    counts = re.findall(r"^\[([ \d]+/12)\] optimizer\.lr=\S+: ", done.stdout, re.MULTILINE)
    assert counts == [f"{number:>2}/12" for number in range(8, 13)], "of all trials, by what is searched"
    more = cheap(*arguments[:2], "seed=3", "hydra.sweeper.n_trials=14", cwd=killed)
    assert more.returncode == 0, more.stderr
    assert started(killed)[-2:] == [12, 13]
    (folder,) = killed.glob("outputs/*/*-sweep")
    other = cheap(RATE, f"hydra.sweep.dir={folder}", "hydra.sweeper.n_trials=15", "seed=4", cwd=killed)
    assert "with other bounds, direction or settings" in other.stderr


@pytest.mark.slow
def test_failed_and_nan_trials_are_recorded_and_repeats_are_not_run(tmp_path: Path) -> None:
    done = cheap(
        "seed=range(6,10)", "hydra.sweeper.n_trials=12", "hydra.sweeper.sampler=random", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    trials = study_in(tmp_path).get_trials()
    assert len(trials) == 12
    assert {t.params["seed"] for t in trials} == {6, 7, 8, 9}
    assert len(started(tmp_path)) == 4, "each of the four seeds has run once"
    for trial in trials:
        assert (trial.state.name == "FAIL") == (trial.params["seed"] in (7, 8))
    assert "seven never works" in done.stderr
    assert re.search(r"with seed=[69]; trial \d is as good\n", done.stdout)


@pytest.mark.slow
def test_trials_run_beside_each_other_and_one_that_kills_its_process_is_a_failure(tmp_path: Path) -> None:
    arguments = [RATE, "hydra.sweeper.n_trials=6", "hydra.sweeper.n_jobs=2", "hydra/launcher=joblib"]
    done = cheap(*arguments, "hydra.launcher.n_jobs=2", cwd=tmp_path, DIE_AT="3")
    assert done.returncode == 0, done.stderr
    assert sorted(started(tmp_path)) == list(range(6)), "none has begun again"
    states = [t.state.name for t in study_in(tmp_path).get_trials()]
    assert states[3] == "FAIL"
    assert [states[i] for i in (0, 1, 4, 5)] == ["COMPLETE"] * 4
    assert "trial 3 failed: it ended without a word (killed?)" in done.stdout + done.stderr


def test_wrong_searches_give_one_message(tmp_path: Path) -> None:
    for arguments, message in (
        (["seed=1"], "nothing to search over"),
        ([RATE, "hydra.sweeper.pruner=hyper"], "hydra.sweeper.pruner=hyper: there are: median, asha, none"),
        (["optimizer.lr=tag(log, interval(0, 1))"], "optimizer.lr=tag(log, interval(0, 1)): "),
        (["model.hidden_size=tag(log, range(64, 512, 64))"], "a range with steps has no logarithmic scale"),
        ([RATE, "optimizer=adamx,lion"], "adamx"),
    ):
        done = tiryns_here(tmp_path, "-m", "hydra/sweeper=optuna", *arguments)
        assert done.returncode == 1, arguments
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("a=interval(1.0, 5)", optuna.distributions.FloatDistribution(1, 5)),
        ("a=int(interval(1, 5))", optuna.distributions.IntDistribution(1, 5)),
        ("a=tag(log, interval(0.1, 5))", optuna.distributions.FloatDistribution(0.1, 5, log=True)),
        ("a=tag(log, range(1, 6))", optuna.distributions.IntDistribution(1, 5, log=True)),
        ("a=range(1, 6)", optuna.distributions.IntDistribution(1, 5)),
        ("a=range(1, 6, 3)", optuna.distributions.IntDistribution(1, 4, step=3)),
        ("a=range(0.1, 0.5, 0.1)", optuna.distributions.FloatDistribution(0.1, 0.4, step=0.1)),
        ("a=choice(x, y)", optuna.distributions.CategoricalDistribution(["x", "y"])),
        ("a=x,'y z'", optuna.distributions.CategoricalDistribution(["x", "'y z'"])),
    ],
)
def test_space_is_written_in_hydras_own_words(
    override: str, expected: optuna.distributions.BaseDistribution
) -> None:
    parsed = OverridesParser.create().parse_overrides(["b=3", override])
    assert search_space(parsed) == (["b=3"], {"a": expected})


def test_half_written_journal_is_repaired(tmp_path: Path) -> None:
    journal = tmp_path / "study.journal"
    study = optuna.create_study(study_name=STUDY, storage=open_storage(str(journal)))
    study.ask()
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code": 4, "wor')
    repair(str(journal))
    assert journal.read_bytes() == whole
    assert len(optuna.load_study(study_name=STUDY, storage=open_storage(str(journal))).get_trials()) == 1


STEPS = ["trainer.max_steps=6", "trainer.validate_every=2", "checkpoint.every_steps=1"]
TRIALS = ["hydra/sweeper=optuna", *STEPS, RATE]


@pytest.mark.slow
def test_hopeless_trials_of_real_runs_are_pruned(tmp_path: Path, text_file: Path) -> None:
    space = "optimizer.lr=choice(3e-3, 1e-7, 1e30)"
    settings = ["hydra.sweeper.n_trials=3", "hydra.sweeper.startup_trials=1", "hydra.sweeper.sampler=random"]
    settings.append("hydra.sweeper.seed=14")  # which draws the good rate first
    done = run_program("-m", *TINY, f"data.source={text_file}", *TRIALS[:-1], space, *settings, cwd=tmp_path)
    states: dict[float, set[str]] = {}
    for trial in study_in(tmp_path).get_trials():
        states.setdefault(float(trial.params["optimizer.lr"]), set()).add(trial.state.name)
    assert states == {3e-3: {"COMPLETE"}, 1e-7: {"PRUNED"}, 1e30: {"FAIL"}}
    (page,) = tmp_path.glob("outputs/*/*-sweep/report.html")
    assert str(page.relative_to(tmp_path)) in done.stdout
    assert "pruned" in read(page).table("run").column("state")
    (pruned,) = (path.parent for path in page.parent.glob("*/status.json") if '"pruned"' in path.read_text())
    assert Run(pruned).status["step"] == 2
    assert not (pruned / "model").exists()


@pytest.mark.slow
def test_search_of_twenty_real_trials_killed_half_way(tmp_path: Path, text_file: Path) -> None:
    arguments = ["-m", *TINY, f"data.source={text_file}", *TRIALS, "resume=auto", "hydra.sweeper.n_trials=20"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "runner.train", *arguments]
    draw = random.Random(1)
    for ended in (4, 10, 15):
        process = subprocess.Popen(
            command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 200
        while len(list(tmp_path.glob("outputs/*/*/*/report.html"))) < ended and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(draw.random() * 0.5)
        process.kill()
        process.wait()
    run_program(*arguments, cwd=tmp_path)
    trials = study_in(tmp_path).get_trials()
    assert len(trials) == 20
    assert all(trial.state.is_finished() for trial in trials)
    (folder,) = tmp_path.glob("outputs/*/*-sweep")
    runs = [Run(path.parent) for path in folder.glob("*/status.json")]
    assert sorted(int(run.path.name) for run in runs) == list(range(20))
    assert {run.status["state"] for run in runs} <= {"done", "pruned"}
    assert len({json.dumps(run.overrides()) for run in runs}) == 20, "none twice"
    for run in runs:
        steps = [int(line.split()[0]) for line in (run.path / "order.txt").read_text().splitlines()]
        assert steps == sorted(set(steps)), "no step of a trial is trained twice"
