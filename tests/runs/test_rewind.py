"""A run whose loss has diverged goes back, leaves out the batches that did it, and is that of a config without them."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.conftest import ROOT, TINY, train_here
from tests.launch.test_kill import only_run
from tests.runs.test_train import Train, assert_bitwise, continued, rows, weights
from tests.support.in_process import tiryns_here
from tests.support.processes import SECONDS, assert_nothing_left, ranks_in, start, wait_for_steps
from tiryns.runner.cli.order.opened import SampleOrder
from tiryns.runner.cli.reproduce.comparison import compare
from tiryns.runner.cli.reproduce.rebuilding import read_run
from tiryns.runner.cli.runs import show_run
from tiryns.runner.config.skipped import skipped_batches
from tiryns.runner.launch.resume import inherit
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.manifest.steps import FILE_NAME as DIGESTS
from tiryns.runner.run import audit
from tiryns.runner.run.errors import TrainingFailure
from tiryns.runner.run.folder import Run

STEPS = 20
WATCHED = [
    "callback.divergence.window=3", "callback.divergence.skip_before=2", "callback.manifest.every=2",
    "checkpoint.every_steps=2", f"trainer.max_steps={STEPS}", "trainer.validate_every=4", "model.dropout=0.1",
    "allowed_targets=[tests]", "optimizer.lr=0.001",
]  # fmt: skip
REWINDING = [*WATCHED, "callback.divergence.action=rewind"]


def poison(*batches: int, factor: float = -8.0) -> str:
    target = "tests.support.callbacks.Poison"
    return f"+callback.poison={{_target_: {target}, batches: {list(batches)}, factor: {factor}}}"


def assert_same_run(run: Run, fresh: Run, step: int = STEPS) -> None:
    assert_bitwise(weights(run, step), weights(fresh, step))
    assert rows(run) == rows(fresh)
    assert audit.compare(run.path, fresh.path) is None
    assert audit.length(run.path) == audit.length(fresh.path) == step
    assert (run.path / DIGESTS).read_text() == (fresh.path / DIGESTS).read_text()
    assert run.status["results"] == fresh.status["results"]
    links = [
        {name: os.readlink(one.checkpoint_dir / name) for name in ("last.ckpt", "best.ckpt")}
        for one in (run, fresh)
    ]
    assert links[0] == links[1]
    assert (run.checkpoint_dir / links[0]["best.ckpt"]).exists()


@pytest.fixture(scope="module")
def rewound(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    """A run that batch 9 has spoiled, and that went back."""
    run: Run = train_here(
        tmp_path_factory.mktemp("rewind") / "run", text_file, *REWINDING, "checkpoint.keep_last=9", poison(9)
    )
    return run


def test_run_goes_back_and_is_that_of_a_config_without_the_batches(rewound: Run, run_here: Train) -> None:
    note = {"batches": [9, 11], "step": 11, "checkpoint": 8}
    assert rewound.status["skipped"] == read_manifest(rewound.path)["skipped"] == [note]
    assert skipped_batches(rewound.path) == [[9, 11]]
    fresh = run_here(*WATCHED, "skip_batches=[[9,11]]", poison(9))
    assert_same_run(rewound, fresh)
    assert skipped_batches(fresh.path) == [[9, 11]]
    orders = [SampleOrder(run.path, ["allowed_targets=[tests]"]) for run in (rewound, fresh)]
    assert [list(order.changed_steps(range(1, STEPS + 1))) for order in orders] == [[], []]
    assert read_manifest(rewound.path)["inputs"]["order"] == read_manifest(fresh.path)["inputs"]["order"]
    assert compare(read_run(rewound.path), read_run(fresh.path))["verdict"] == "identical"


@pytest.mark.slow
def test_run_that_went_back_is_rebuilt(rewound: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PYTHONPATH", str(ROOT)
    )  # the process that trains finds the callback of the tests there
    words = ("reproduce", str(rewound.path), "allowed_targets=[tests]", "--json")
    done = tiryns_here(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["verdict"], report["steps"]["compared"]) == ("identical", 10)
    (rebuilt,) = tmp_path.glob("outputs/*/*")
    assert "skipped" not in Run(rebuilt).status, "it leaves the batches out from the beginning"


def test_whoever_looks_at_the_run_is_told(rewound: Run, capsys: pytest.CaptureFixture[str]) -> None:
    told = "the loss diverged at step 11: global batches 9 to 11 are left out, from step 8"
    show_run(rewound)
    assert f"1, the last: {told}" in capsys.readouterr().out
    assert told in (rewound.path / "report.html").read_text()


def test_run_that_is_killed_after_it_went_back_goes_on_without_the_batches(
    rewound: Run, text_file: Path
) -> None:
    copy = continued(rewound, 10, "killed")
    train_here(copy.path, text_file, *REWINDING, "checkpoint.keep_last=9", poison(9))
    assert_same_run(copy, rewound)


def test_branch_leaves_out_what_its_parent_did(rewound: Run, tmp_path: Path) -> None:
    branch = Run(tmp_path)
    inherit(branch, str(rewound.path))
    assert skipped_batches(branch.path) == [[9, 11]]
    assert branch.status["skipped"][0]["inherited"], "it does not count as a rewind of the branch"


@pytest.mark.slow
def test_rewinds_are_counted_and_the_last_word_names_them(run_here: Train) -> None:
    with pytest.raises(
        TrainingFailure, match=r"the run has gone back 1 times.*max_rewinds=1.*batches 5 to 7 are left out"
    ):
        run_here(*REWINDING, "callback.divergence.max_rewinds=1", "trainer.validate_every=0", poison(5, 10))


@pytest.mark.slow
def test_loss_that_is_no_number_takes_the_run_back_too(run_here: Train) -> None:
    run = run_here(
        *REWINDING, "trainer.max_steps=10", "trainer.validate_every=0", poison(5, factor=float("nan"))
    )
    assert run.status["skipped"] == [{"batches": [3, 6], "step": 6, "checkpoint": 2}]
    assert run.status["step"] == 10


def test_checkpoint_of_another_order_is_refused(rewound: Run, text_file: Path) -> None:
    copy = continued(rewound, 14, "other")
    with pytest.raises(
        ValueError,
        match=r"another sample order: skip_batches was \[\[9, 11\]\] and is \[\[2, 2\], \[9, 11\]\]",
    ):
        train_here(copy.path, text_file, *REWINDING, "skip_batches=[[2,2]]")


@pytest.mark.parametrize(
    ("words", "setting"),
    [(["skip_batches=[[3,4]]"], "skip_batches"), (REWINDING, "callback.divergence.action=rewind")],
)
def test_stream_is_refused(rewound: Run, run_here: Train, words: list[str], setting: str) -> None:
    stream = [
        "data.streaming=true",
        f"data.tokenizer={rewound.path / 'model'}",
        "data.validation_documents=20",
    ]
    with pytest.raises(
        ValueError, match=f"{setting} leaves out global batches by their number, and Streamed.* a stream"
    ):
        run_here(*words, *stream)


@pytest.mark.slow
def test_run_without_a_checkpoint_before_the_batches_begins_again(run_here: Train) -> None:
    run = run_here(*REWINDING, "checkpoint.every_steps=9", "trainer.validate_every=0", poison(4))
    assert run.status["skipped"] == [{"batches": [4, 6], "step": 6, "checkpoint": 0}]
    fresh = run_here(*WATCHED, "skip_batches=[[4,6]]", "trainer.validate_every=0", poison(4), folder="fresh")
    assert_bitwise(weights(run, STEPS), weights(fresh, STEPS))
    assert rows(run) == rows(fresh)


@pytest.mark.slow
def test_length_in_epochs_and_two_rewinds_give_the_run_of_the_config(run_here: Train) -> None:
    epochs = [
        "trainer.max_steps=-1", "trainer.max_epochs=1", "trainer.validate_every=0", "checkpoint.keep_last=9",
    ]  # fmt: skip
    run = run_here(*REWINDING, *epochs, poison(9, 17))
    assert [note["batches"] for note in run.status["skipped"]] == [[9, 11], [17, 19]]
    pairs = str(skipped_batches(run.path)).replace(" ", "")
    fresh = run_here(*WATCHED, *epochs, f"skip_batches={pairs}", poison(9, 17), folder="fresh")
    step = run.status["step"]
    assert_bitwise(weights(run, step), weights(fresh, step))
    assert audit.compare(run.path, fresh.path) is None


@pytest.mark.slow
def test_ranks_of_an_agent_go_back_together_and_survive_a_kill(text_file: Path, tmp_path: Path) -> None:
    nap = "+callback.nap={_target_: tests.slurm.nap.Nap, seconds: 0.1}"
    words = [
        *TINY, f"data.source={text_file}", *REWINDING, poison(9), nap, "trainer.devices=2",
        "trainer.validate_every=0",
    ]  # fmt: skip
    process = start([*words, "trainer.max_restarts=1"], tmp_path / "rewound")
    wait_for_steps(process, tmp_path / "rewound", 11)
    run = only_run(tmp_path / "rewound" / "outputs")
    wait_for_steps(process, tmp_path / "rewound", 13)  # those of the ranks that were started again
    os.kill(ranks_in(tmp_path / "rewound")[1], signal.SIGKILL)
    assert process.wait(timeout=SECONDS) == 0, (tmp_path / "rewound" / "output.txt").read_text()[-3000:]
    output = (tmp_path / "rewound" / "output.txt").read_text()
    assert "the loss diverged at step 11: global batches 9 to 11 are left out, from step 8" in output
    assert "restart 1 of 1" in output, "the rewind did not use it up"
    assert_nothing_left(tmp_path / "rewound")
    words = [*words, "callback.divergence.action=stop", "skip_batches=[[9,11]]"]
    assert start(words, tmp_path / "fresh").wait(timeout=SECONDS) == 0
    fresh = only_run(tmp_path / "fresh" / "outputs")
    assert_bitwise(weights(run, STEPS), weights(fresh, STEPS))
    assert audit.compare(run.path, fresh.path) is None
    assert (run.path / DIGESTS).read_text() == (fresh.path / DIGESTS).read_text()
    assert [one["batches"] for one in json.loads((run.path / "manifest.json").read_text())["skipped"]] == [
        [9, 11]
    ]
