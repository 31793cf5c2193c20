"""Several sweepers on one study: no trial is run twice, and one that is killed leaves its trials to the others."""

import json
import multiprocessing
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.conftest import ROOT
from tests.support import needs
from tests.sweeps.test_optuna import CHEAP, RATE
from tiryns.conf import sweeps as options
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps.optuna import Search
from tiryns.runner.sweeps.study import STUDY, SWEEPER, Claims, open_storage, storage_of


class Sweeper(ExitStack):
    """A search as its process holds it, less the launcher."""

    def __init__(self, folder: Path, storage: str | None, n_trials: int, n_jobs: int = 1) -> None:
        super().__init__()
        folder.mkdir(exist_ok=True)
        settings = {"n_trials": n_trials, "n_jobs": n_jobs, "sampler": "random", "storage": storage}
        known: Any = options.Optuna(**settings)  # type: ignore[arg-type]
        self.search = Search(**{name: value for name, value in vars(known).items() if name != "_target_"})
        self.search.folder, self.search.direction, self.search.ended = folder, "minimize", set()
        self.search.space = {"x": optuna.distributions.FloatDistribution(0, 1)}
        self.search.identity = "0"
        self.search.study = self.search._open_study()
        self.search.claims = Claims(folder, self.search.storage)
        self.enter_context(self.search.claims.mark_alive())

    def next(self) -> list[int]:
        return [trial.number for trial in self.search._next_trials()]

    def end(self, number: int) -> None:
        folder = Run(self.search.folder / str(number))
        folder.path.mkdir(exist_ok=True)
        folder.update_status(state="done", results={"objective": 0.5})
        self.search.ended.add(number)
        assert self.search._tell(folder)


def test_sweepers_of_one_folder_share_its_trials(tmp_path: Path) -> None:
    with Sweeper(tmp_path / "s", None, 4) as first, Sweeper(tmp_path / "s", None, 4) as second:
        assert first.next() == [0]
        assert second.next() == [1]
        assert first.next() == [0], "it is still to be run, and its own"
        first.end(0)
        assert first.next() == [2]
        second.close()  # as if it was killed
        assert first.next() == [1]
        first.end(1)
        first.end(2)
        assert first.next() == [3]
        first.end(3)
        assert first.next() == [] == first.next()
        values = [trial.params["x"] for trial in first.search.study.get_trials()]
        assert len(set(values)) == 4, "each has numbers of its own"


def test_sweepers_of_two_folders_leave_each_others_trials_alone(tmp_path: Path) -> None:
    journal = str(tmp_path / "shared.journal")
    with Sweeper(tmp_path / "a", journal, 4) as first, Sweeper(tmp_path / "b", journal, 4) as second:
        assert (first.next(), second.next()) == ([0], [1])
        second.close()
        first.end(0)
        assert first.next() == [2], "the trial in the other folder is not taken over"
        with Sweeper(tmp_path / "b", journal, 4) as again:
            assert again.next() == [1], "the same sweep started again goes on with it"


def test_trial_that_no_sweeper_has_claimed_yet_is_not_lost(tmp_path: Path) -> None:
    with Sweeper(tmp_path / "s", None, 2) as own:
        own.search.study.ask()
        assert own.next() == [0]
    with Sweeper(tmp_path / "t", str(tmp_path / "shared.journal"), 2) as shared:
        shared.search.study.ask()
        assert shared.next() == [1], "another sweeper may be about to claim it"


def test_wrong_storages_give_one_message(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a file or grpc://HOST:PORT"):
        open_storage("grpc://nowhere")
    assert storage_of("grpc://host:1", tmp_path) == "grpc://host:1"


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    """Optuna's proxy for a journal, in a process of its own."""
    needs.package("grpc")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    served = multiprocessing.get_context("spawn").Process(
        target=serve, args=(str(tmp_path / "served.journal"), port)
    )
    served.start()
    yield f"grpc://localhost:{port}"
    served.kill()
    served.join()


def serve(journal: str, port: int) -> None:
    optuna.storages.run_grpc_proxy_server(open_storage(journal), port=port)


def search_in(cwd: Path, *words: str, **environment: str) -> "subprocess.Popen[str]":
    cwd.mkdir(exist_ok=True)
    (cwd / "cheap.py").write_text(CHEAP)
    search = ["-m", "hydra/sweeper=optuna", RATE, "hydra.sweeper.n_trials=24", *words]
    command = [sys.executable, "cheap.py", *search]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "journal", "proxy"])
def test_two_processes_search_together(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    storage = {"folder": None, "journal": tmp_path / "shared.journal"}.get(kind) or None
    if kind == "proxy":
        storage = request.getfixturevalue("proxy")
    places = [tmp_path / "a", tmp_path / ("a" if kind == "folder" else "b")]
    words = ["hydra.sweep.dir=sweep", *([f"hydra.sweeper.storage={storage}"] if storage else [])]
    both = [search_in(place, *words) for place in places]
    for process in both:
        output, _ = process.communicate(timeout=1200)
        assert process.returncode == 0, output
        assert "Traceback" not in output
    started = [line for place in set(places) for line in (place / "started.txt").read_text().split()]
    opened = open_storage(str(storage or places[0] / "sweep" / "study.journal"))
    trials = optuna.load_study(study_name=STUDY, storage=opened).get_trials()
    assert sorted(map(int, started)) == list(range(len(trials))), "no trial twice, and none left out"
    assert len(trials) == 24 or (kind == "proxy" and len(trials) == 25)
    assert Counter(trial.state.name for trial in trials) == {"COMPLETE": len(trials)}
    assert len({trial.user_attrs[SWEEPER] for trial in trials}) == 2, "both took part"
    assert len({json.dumps(trial.params) for trial in trials}) == len(trials)
