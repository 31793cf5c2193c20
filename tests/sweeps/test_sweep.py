"""A sweep: a folder for each job, jobs that may fail, a page that compares them, and the same sweep run again."""

import json
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from tests.conftest import TINY, run_program
from tests.report.pages import read
from tests.support.in_process import refused, tiryns_here
from tiryns.runner.launch.resume import saved_overrides
from tiryns.runner.run import audit
from tiryns.runner.run.files import read_sweep
from tiryns.runner.run.folder import Run
from tiryns.runner.sweeps.sweeper import combinations, find_sweep, place, problem_of, same_failure

SHORT = ["trainer.max_steps=4", "trainer.validate_every=2"]
SHORT += ["checkpoint.every_steps=2", "checkpoint.keep_last=9"]


class Swept(NamedTuple):
    """A sweep of two learning rates, one of them hopeless, and two seeds."""

    folder: Path
    arguments: list[str]
    first: subprocess.CompletedProcess[str]

    def run(self, number: int) -> Run:
        return Run(self.folder / str(number))


Again = tuple[subprocess.CompletedProcess[str], list[float]]


def written(run: Run) -> float:
    return (run.checkpoint_dir / "step-00000004.ckpt").stat().st_mtime


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Swept:
    cwd = tmp_path_factory.mktemp("sweep")
    arguments = ["-m", *TINY, f"data.source={text_file}", *SHORT, "logger=csv", "resume=auto"]
    arguments += ["optimizer.lr=0.003,1e30", "seed=1,2"]
    first = run_program(*arguments, cwd=cwd, check=False)
    (folder,) = cwd.glob("outputs/*/*-sweep")
    shutil.copytree(folder, cwd / "outputs" / "2020-01-01" / "copy-sweep", symlinks=True)
    return Swept(folder, arguments, first)


@pytest.fixture(scope="module")
def again(swept: Swept) -> Again:
    """The same sweep after a kill, and when the first one had written the weights of its first two jobs."""
    weights = [written(swept.run(number)) for number in (0, 1)]
    cut = swept.run(1)  # as if killed after its checkpoint of step 2
    (cut.checkpoint_dir / "step-00000004.ckpt").unlink()
    cut.update_status(state="running")
    return run_program(*swept.arguments, cwd=swept.folder.parents[2], check=False), weights


@pytest.mark.slow
def test_failed_jobs_do_not_end_the_sweep_but_are_named_at_its_end(swept: Swept) -> None:
    assert swept.first.returncode == 1
    assert [swept.run(i).status["state"] for i in range(4)] == ["done", "done", "failed", "failed"]
    assert "Traceback" not in swept.first.stderr
    lines = [line for line in swept.first.stderr.splitlines() if line.startswith("failed: ")]
    assert len(lines) == 2
    cause = "the loss or its gradient is not a number"
    assert lines[0].startswith(f"failed: 2 (optimizer.lr=1e+30 seed=1): {cause}")
    assert [line.count(cause) for line in swept.first.stderr.splitlines() if cause in line] == [1, 1]
    assert "epoch:index" not in swept.first.stderr
    assert "epoch:index" in (swept.folder / "2" / "train.log").read_text()
    log = Path("outputs", *swept.folder.parts[-2:], "2", "train.log")
    assert f"2 has failed: see {log}" in swept.first.stderr
    assert "2 of 4 jobs failed; run them again with: tiryns resume=" in swept.first.stderr


def test_page_ranks_the_settings_and_gives_a_command_of_the_best(swept: Swept) -> None:
    assert str(swept.folder.relative_to(swept.folder.parents[2]) / "report.html") in swept.first.stdout
    page = read(swept.folder / "report.html")
    settings, runs = page.table("rank"), page.table("run")
    assert settings.heads[:3] == ["rank", "mean best validation loss", "seeds"]
    assert runs.heads[1:5] == ["best validation loss", "optimizer.lr", "seed", "state"]
    reasons = ["not a number" in row.get("below", "") for row in runs.part["marks"]]
    assert reasons == [False, False, True, True], "why both jobs have failed"
    assert len(runs.rows) == 4
    results = [swept.run(i).status["results"]["objective"] for i in (0, 1)]
    assert runs.best == [0, 1]
    (command,) = page.texts("command")
    words = shlex.split(command)
    assert words[0] == "tiryns"
    assert "seed=1" in words
    assert "optimizer.lr=0.003" in words
    assert not {"-m", "--multirun", "resume=auto"} & set(words[1:])
    assert settings.rows[0][1] == pytest.approx(sum(results) / 2)
    assert "standard deviation" in settings.heads
    assert list(page.of("charts")[-1]["names"].values()) == ["lr=0.003", "lr=1e+30"]


def test_same_sweep_again_skips_what_is_done_and_goes_on_with_the_rest(swept: Swept, again: Again) -> None:
    done, weights = again
    assert "1 of 4 jobs are done already" in done.stdout + done.stderr
    assert len(list(swept.folder.parent.glob("*-sweep"))) == 1
    assert written(swept.run(0)) == weights[0]
    assert written(swept.run(1)) > weights[1]
    assert "continuing at step 2" in (swept.folder / "1" / "output.txt").read_text()
    assert swept.run(1).status["state"] == "done"
    assert audit.length(swept.run(1).path) == 4
    assert done.returncode == 1, "the hopeless ones fail again"


@pytest.mark.slow
def test_wandb_runs_of_a_sweep_are_a_group_and_each_their_own(tmp_path: Path, text_file: Path) -> None:
    words = [*TINY, f"data.source={text_file}", *SHORT, "trainer.max_steps=2", "logger=wandb"]
    run_program("-m", *words, "seed=1,2", cwd=tmp_path)
    (folder,) = tmp_path.glob("outputs/*/*-sweep")
    group = "/".join(folder.parts[-2:])
    ids = set()
    for run in (folder / "0", folder / "1"):
        ids.add((run / "wandb_id.txt").read_text())
        files = list(run.glob("wandb/offline-run-*/*.wandb"))
        assert files
        assert all(group.encode() in file.read_bytes() for file in files)
    assert len(ids) == 2


def test_sweep_is_found_by_its_overrides_and_brought_back_by_its_folder(swept: Swept) -> None:
    outputs = swept.folder.parents[1]
    noted = read_sweep(swept.folder)
    assert noted["begun_in"] == [str(outputs.parent), "../../.."]
    wanted = {name: noted[name] for name in ("overrides", "sweeper")}
    assert find_sweep(outputs, wanted) == swept.folder
    assert find_sweep(outputs, {**wanted, "overrides": [*wanted["overrides"], "seed=3"]}) is None
    words = saved_overrides([f"resume={swept.folder}", "seed=1,2,3"])
    assert words[0] == "-m"
    assert f"hydra.sweep.dir='{swept.folder}'" in words
    assert words[-1] == "seed=1,2,3"
    assert not [word for word in words if word.startswith("resume=")]


def test_each_setting_of_a_grid_is_one_job() -> None:
    """Also where a repeated sweep is given more values: `tiryns resume=SWEEP x=1,2,3` after `-m +x=1,2`."""
    parsed = OverridesParser.create().parse_overrides(["+x=1,2", "y=5,5", "x=1,2,3"])
    assert combinations(parsed) == [["+x=1", "y=5"], ["+x=2", "y=5"], ["+x=3", "y=5"]]
    with pytest.raises(ValueError, match=re.escape("x=range(5,1): the range is empty")):
        combinations(OverridesParser.create().parse_overrides(["y=1,2", "x=range(5,1)"]))


def test_jobs_keep_their_folders_and_new_ones_get_the_next(tmp_path: Path) -> None:
    first = place(tmp_path, [["seed=1"], ["seed=2"]], ["a", "b"])
    assert [job.folder.path.name for job in first] == ["0", "1"]
    wider = place(tmp_path, [["seed=0"], ["seed=2"], ["seed=1"]], ["c", "b", "a"])
    assert [job.folder.path.name for job in wider] == ["2", "1", "0"]
    changed = place(tmp_path, [["seed=1"]], ["another default"])
    assert changed[0].folder.path.name == "3"
    both = place(tmp_path, [["data.num_workers=0"], ["data.num_workers=4"]], ["same", "same"])
    assert [job.folder.path.name for job in both] == ["4", "5"], "what differs in execution alone is two jobs"
    assert json.loads((tmp_path / "2" / "overrides.json").read_text()) == ["seed=0"]


def test_simultaneous_sweeps_in_one_folder_have_folders_of_their_own(tmp_path: Path) -> None:
    sweeps = [[[f"seed={first + i}"] for i in range(6)] for first in (10, 20)]
    with ThreadPoolExecutor(2) as pool:
        placed = list(pool.map(lambda jobs: place(tmp_path, jobs, ["same"] * 6), sweeps))
    assert len({job.folder.path for jobs in placed for job in jobs}) == 12
    assert all(job.folder.overrides() == job.overrides for jobs in placed for job in jobs)


def test_problem_of_a_job_says_how_it_ended(tmp_path: Path) -> None:
    run = Run(tmp_path)
    states = ("done", "pruned", "preempted", "running", "waiting", "failed")
    found = {}
    for state in states:
        run.update_status(state=state, error="no such file\nand more" if state == "failed" else None)
        found[state] = problem_of(run)
    assert [found[state] for state in states[:3]] == [None, None, None]
    assert found["failed"] == "no such file"
    assert re.search("killed", str(found["running"]))
    run.update_status(state="running")
    with run.lock():
        assert problem_of(run) is None, "another process is at it"


def test_job_that_is_wrong_by_itself_is_named_by_its_words(tmp_path: Path) -> None:
    error = refused(tmp_path, "-m", "seed=1,2", "model.num_attention_heads=2,3")
    assert "error: the job seed=1 model.num_attention_heads=3: model.hidden_size=128 is not" in error
    assert not list(tmp_path.glob("**/status.json")), "nothing has begun"
    done = tiryns_here(tmp_path, "-m", "model.num_attention_heads=3")
    assert done.stderr.startswith("error: model.hidden_size=128 is not"), "there is one job"


@pytest.mark.slow
def test_what_every_job_would_fail_by_is_said_once(tmp_path: Path) -> None:
    rows = "".join(f"text number {i},{'ab'[i % 2]}\n" for i in range(6))
    (tmp_path / "few.csv").write_text(f"text,label\n{rows}")
    words = ["experiment=classification", *TINY, "data=classification", "data.train=few.csv"]
    error = refused(tmp_path, *words, "folds=8")
    (said,) = [line for line in error.splitlines() if "there are only 6 distinct texts" in line]
    assert said.startswith("error: data.folds=8: ")
    assert "the first 3 jobs have failed by this, and the other 5 are not started" in said
    assert "tiryns resume=" in said
    (sweep,) = tmp_path.glob("outputs/*/*-sweep")
    states = [Run(sweep / str(number)).status["state"] for number in range(8)]
    assert states == ["failed"] * 3 + ["waiting"] * 5


def test_jobs_that_fail_otherwise_or_in_training_tell_nothing_of_the_others(tmp_path: Path) -> None:
    runs = [Run(tmp_path / str(number)) for number in range(3)]
    for number, run in enumerate(runs, start=1):
        run.path.mkdir()
        run.update_status(state="failed", error=f"data.fold={number} is empty")
    assert same_failure(runs) == "data.fold=... is empty"
    runs[2].update_status(max_steps=9)
    assert same_failure(runs) is None, "it had begun to train"
    runs[1].update_status(error="another")
    assert same_failure(runs[:2]) is None


def test_a_line_is_printed_for_each_job_and_the_rest_kept_beside_it(swept: Swept, again: Again) -> None:
    lines, further = (re.findall(r"^\[\d/4\] .*", done.stdout, re.M) for done in (swept.first, again[0]))
    assert [line.partition(":")[0] for line in lines] == [
        f"[{number}/4] optimizer.lr={lr} seed={seed}"
        for number, (lr, seed) in enumerate([("0.003", 1), ("0.003", 2), ("1e+30", 1), ("1e+30", 2)], 1)
    ]
    value = swept.run(0).status["results"]["objective"]
    assert re.fullmatch(rf".*: val/held_out/loss {value:#.4g}, \d:\d\d, outputs/\S+/0", lines[0])
    assert re.fullmatch(r".*: failed, \d:\d\d, outputs/\S+/2", lines[2])
    assert "step 1/4" not in swept.first.stdout
    assert "HYDRA" not in swept.first.stdout
    assert "step 1/4 loss" in (swept.folder / "0" / "output.txt").read_text()
    assert "step 1/4 loss" in (swept.folder / "1" / "output.txt").read_text()
    assert [line[:5] for line in further] == ["[2/4]", "[3/4]", "[4/4]"], "one was done"
