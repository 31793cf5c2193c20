"""Which run `resume` finds, and branching off a run with a cool-down."""

import json
import shlex
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from tests.conftest import TINY, train_here
from tests.runs.test_train import continued, losses
from tests.support.composed import composed
from tests.support.in_process import tiryns_here
from tests.support.precision import rounding
from tiryns.runner.cli.compose import initialize, overrides_of
from tiryns.runner.config.run_config import begun_in
from tiryns.runner.launch import resume
from tiryns.runner.launch.resume import inherit, named_run, newest_or_claimed, newest_run, saved_overrides
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.run.recording import STOPS_EARLY, config_hash


def pretend_run(folder: Path, **status: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps({"config_hash": "abc", "state": "failed", **status}))
    (folder / "overrides.json").write_text(json.dumps(["seed=7", "model=bert_tiny"]))
    (folder / "checkpoints").mkdir()
    for step in (500, 1000):
        (folder / "checkpoints" / f"step-{step:08d}.ckpt").write_text("")
    return folder


def test_auto_takes_the_newest_run_of_the_same_config_in_whatever_state(tmp_path: Path) -> None:
    pretend_run(tmp_path / "d" / "waiting", state="waiting")
    pretend_run(tmp_path / "d" / "old", started="2026-01-01")
    newest = pretend_run(tmp_path / "d" / "new", started="2026-01-02")
    pretend_run(tmp_path / "d" / "other", started="2026-01-04", config_hash="xyz")
    assert newest_run(tmp_path, "abc") == newest
    done = pretend_run(tmp_path / "d" / "done", started="2026-01-03", state="done")
    assert newest_run(tmp_path, "abc") == done
    assert newest_run(tmp_path, "none") is None
    (done / "config.yaml").write_text("# config_hash: abc\n_target_: runner.callbacks.EarlyStopping")
    assert [newest_run(tmp_path, one) for one in ("abc", f"abc{STOPS_EARLY}")] == [newest, done], "as before"


def test_folder_is_read_as_it_is_printed_for_a_shell(tmp_path: Path) -> None:
    run = pretend_run(tmp_path / "läufe, lr=0.1" / "it's")
    *saved, last = saved_overrides([f"resume={run}"])
    read = OverridesParser.create().parse_override(last)
    assert (read.key_or_group, read.value(), saved) == ("resume", str(run), ["seed=7", "model=bert_tiny"])


@pytest.mark.slow
def test_folder_with_the_name_of_a_setting_is_taken_as_it_stands(tmp_path: Path, text_file: Path) -> None:
    here = tmp_path / "a${seed}b${nothing}"
    here.mkdir()
    words = [*TINY, f"data.source={text_file}", "trainer.max_steps=1", "trainer.validate_every=0"]
    for more in (["hydra.run.dir=runs/${seed}", "seed=5"], ["-m", "seed=6,7"], ["seed=8"]):
        done = tiryns_here(here, *more[:1], *words, *more[1:])
        assert done.returncode == 0, done.stderr
    folders = [*here.glob("outputs/*/*-sweep/*/"), *here.glob("outputs/*/*/"), here / "runs" / "5"]
    runs = [Run(folder) for folder in folders if (folder / "train.log").exists()]
    assert [run.status["state"] for run in runs] == ["done"] * 4
    assert [path.name for path in tmp_path.iterdir()] == [here.name]
    again = tiryns_here(here, *words, "seed=8", "resume=auto")
    assert "is finished, at step 1" in again.stdout


def test_autos_of_one_instant_are_one_run(tmp_path: Path) -> None:
    together, outputs = threading.Barrier(8), tmp_path / "new" / "outputs"

    def folder(_: int) -> Path:
        together.wait()
        return newest_or_claimed(outputs, "abc")

    with ThreadPoolExecutor(8) as pool:
        (found,) = {*pool.map(folder, range(8))}
    assert newest_run(outputs, "abc") == found
    assert newest_or_claimed(outputs, "xyz") != found
    with Run(found).lock(), pytest.raises(ValueError, match=r"training this config in .* at this moment"):
        newest_or_claimed(outputs, "abc")


def test_looking_at_a_config_leaves_nothing_and_may_be_done_while_it_trains(tmp_path: Path) -> None:
    words = ["--cfg=all", "--resolve", "seed=16", "resume=auto"]
    assert tiryns_here(tmp_path, *words).returncode == 0
    assert not list(tmp_path.iterdir())
    assert tiryns_here(tmp_path, *words, "trainer.num_nodes=2").returncode == 0
    assert not list(tmp_path.iterdir())
    printed = tiryns_here(tmp_path, "--cfg", "job", "seed=16", "resume=auto")
    run = pretend_run(tmp_path / "outputs" / "a")
    config = DictConfig(yaml.safe_load(printed.stdout))
    Run(run).update_status(config_hash=config_hash(config))
    with Run(run).lock():
        assert "dir: outputs/a\n" in tiryns_here(tmp_path, *words).stdout


def test_resume_brings_back_the_overrides_of_the_run(tmp_path: Path) -> None:
    run = pretend_run(tmp_path / "run")
    assert saved_overrides([f"resume={run}"]) == ["seed=7", "model=bert_tiny", f"resume={run}"]
    assert saved_overrides(["--cfg", "job", f"resume={run}", "seed=8"]) == [
        "--cfg", "job", "seed=7", "model=bert_tiny", f"resume={run}", "seed=8",
    ]  # fmt: skip
    assert saved_overrides(["resume=auto", "seed=8"]) == ["resume=auto", "seed=8"]


@pytest.mark.slow
def test_run_of_an_earlier_version_goes_on_without_settings_that_are_gone(tmp_path: Path) -> None:
    run, default = pretend_run(tmp_path / "run"), composed([])
    noted = ["module.replay_every=100", "seed=7", "module.replay=1"]
    (run / "overrides.json").write_text(json.dumps(noted))
    assert saved_overrides([f"resume={run}"]) == ["seed=7", "module.replay=1", f"resume={run}"]
    earlier = DictConfig(yaml.safe_load(OmegaConf.to_yaml(default)))
    earlier.module.replay_every = 100
    assert config_hash(earlier) == config_hash(default)
    with initialize():
        assert overrides_of(earlier) == []
    earlier.module.other = 100
    assert config_hash(earlier) != config_hash(default)


def test_resume_finds_the_configs_where_the_run_found_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = pretend_run(Path("run"))
    for typed in (["--config-dir", "my configs"], ["--config-dir=my configs"]):
        (run / "command.txt").write_text(shlex.join(["tiryns", *typed, "seed=7"]))
        with pytest.raises(ValueError, match=r"a folder of configs .* is not here.* say where"):
            saved_overrides(["resume=run"])
        assert saved_overrides(["-cd", "other", "resume=run"])[:3] == ["-cd", "other", "seed=7"]
        Path("my configs").mkdir()
        assert saved_overrides(["resume=run"]) == [*typed, "seed=7", "model=bert_tiny", "resume=run"]
        Path("my configs").rmdir()


def test_new_cooldown_ends_the_run_that_many_steps_after_the_checkpoint(tmp_path: Path) -> None:
    copy = pretend_run(tmp_path / "run") / "checkpoints" / "best.ckpt"  # where there are no links
    torch.save({"global_step": 500}, copy)
    found = saved_overrides([f"resume={copy}", "scheduler.cooldown_steps=50"])
    assert found[-1] == "trainer.max_steps=550"


@pytest.mark.parametrize(
    ("lengths", "new", "kept"),
    [
        ("", ["trainer.max_steps=9"], ["trainer.max_steps=9"]),
        ("", ["trainer.max_flops=1e9"], ["trainer.max_flops=1e9", "trainer.max_steps=-1"]),
        ("", ["scheduler.cooldown_steps=50"], ["scheduler.cooldown_steps=50", "trainer.max_steps=1050"]),
        ("", *(["scheduler.cooldown_steps=50", "trainer.max_steps=9"],) * 2),
        ("", ["scheduler.cooldown_steps=0.2"], ["scheduler.cooldown_steps=0.2", "trainer.max_steps=1250"]),
        ("max_steps: 1500", *(["scheduler.cooldown_steps=0"],) * 2),
        ("", ["seed=8"], ["trainer.max_steps=-1", "trainer.max_tokens=5", "seed=8"]),
        (
            "max_steps: -1, max_tokens: 5",
            ["trainer.max_steps=9"],
            ["trainer.max_steps=9", "trainer.max_tokens=null"],
        ),
        ("max_steps: 1500", ["trainer.max_epochs=2"], ["trainer.max_epochs=2", "trainer.max_steps=-1"]),
        ("max_epochs: 2", ["trainer.max_steps=9"], ["trainer.max_steps=9"]),
    ],
)
def test_new_length_takes_the_place_of_the_old_one(
    tmp_path: Path, lengths: str, new: list[str], kept: list[str]
) -> None:
    """Also of a length of the default or of a recipe, which is not among the overrides."""
    run = pretend_run(tmp_path / "run")
    words = ["seed=7", *([] if lengths else ["trainer.max_steps=-1", "trainer.max_tokens=5"])]
    (run / "overrides.json").write_text(json.dumps(words))
    (run / "config.yaml").write_text(f"trainer: {{{lengths}}}\n")
    found = saved_overrides([f"resume={run}", *new])
    assert [word for word in found if word not in ("seed=7", f"resume={run}")] == kept


def test_resume_of_a_sweep_is_its_command_again(tmp_path: Path) -> None:
    noted = {
        "overrides": ["seed=1,2", "optimizer.lr=0.1"],
        "hydra": ["hydra.sweeper.n_jobs=2"],
        "flags": ["--config-dir", "mine", "--config-name=other"],
    }
    (tmp_path / "sweep.json").write_text(json.dumps(noted))
    assert saved_overrides(["-m", f"resume={tmp_path}", "optimizer.lr=0.2"]) == [
        "-m", "--config-dir", "mine", "--config-name=other", "hydra.sweeper.n_jobs=2",
        f"hydra.sweep.dir='{tmp_path}'", "seed=1,2", "optimizer.lr=0.1", "optimizer.lr=0.2",
    ]  # fmt: skip
    for flags in (["mine"], ["--config-dir", "mine", "other"], ["--package", "x"], "--multirun"):
        (tmp_path / "sweep.json").write_text(json.dumps({**noted, "flags": flags}))
        with pytest.raises(ValueError, match=r"sweep\.json is damaged: .* is no flag of a sweep"):
            saved_overrides([f"resume={tmp_path}"])
    configs = tmp_path / "project" / "mine"
    configs.mkdir(parents=True)
    (tmp_path / "sweep.json").write_text(json.dumps({**noted, "begun_in": ["/gone", "project"]}))
    assert saved_overrides([f"resume={tmp_path}"])[1:3] == ["--config-dir", str(configs)]
    assert begun_in(tmp_path / "0") == [tmp_path / "project"], "for the data of a job that has not begun"
    assert "mine" not in saved_overrides(["-cd", "other", f"resume={tmp_path}"])


def test_branch_takes_over_the_curves_of_its_run_once(tmp_path: Path) -> None:
    parent, branch = pretend_run(tmp_path / "run"), Run(pretend_run(tmp_path / "branch"))
    (parent / "metrics.csv").write_text("parent's")
    (parent / "order.txt").write_text("parent's")
    (branch.path / "order.txt").write_text("own")
    inherit(branch, None)
    inherit(branch, "auto")
    assert not (branch.path / "metrics.csv").exists()
    inherit(branch, str(branch.path))
    assert not (branch.path / "metrics.csv").exists()
    assert "branched_from" not in branch.status
    start = parent / "checkpoints" / "step-00000500.ckpt"

    def copy_half(_: Path, target: Path) -> None:
        target.write_text("par")
        raise OSError("No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.copyfile", copy_half)
        with pytest.raises(OSError, match=r"metrics\.csv': No space left"):
            inherit(branch, str(start))
    inherit(branch, str(start))
    assert branch.status["branched_from"] == str(start), (
        "a branch killed before its first checkpoint starts there"
    )
    assert (branch.path / "metrics.csv").read_text() == "parent's"
    assert (branch.path / "order.txt").read_text() == "own"


def test_run_in_use_and_missing_checkpoint_are_refused(tmp_path: Path) -> None:
    run = pretend_run(tmp_path / "run")
    with Run(run).lock(), pytest.raises(ValueError, match="a process is training in"):
        named_run(str(run))
    with pytest.raises(ValueError, match=r"there are: step-00000500.ckpt, step-00001000.ckpt"):
        saved_overrides([f"resume={run / 'checkpoints' / 'step-00000700.ckpt'}"])


def test_how_a_run_is_executed_may_change_on_resume(run_here: Callable[..., Run], text_file: Path) -> None:
    usual = ["checkpoint.every_steps=5", "checkpoint.keep_last=9", "model.dropout=0.1"]
    whole = run_here(*usual)
    copy = continued(whole, 5, "copy")
    changed = [
        "module.gradient_checkpointing=true",
        "module.log_parameter_norms=true",
        "optimizer.fused=false",
    ]
    train_here(copy.path, text_file, *usual, *changed)
    assert copy.status["config_hash"] == whole.status["config_hash"]
    assert losses(copy) == pytest.approx(losses(whole), rel=rounding(1e-5, 1e-3))
    assert audit.compare(whole.path, copy.path) is None


def test_starting_from_a_run_without_a_model_is_refused(tmp_path: Path) -> None:
    run = pretend_run(tmp_path / "run")
    with pytest.raises(
        ValueError, match=r"has left no model/: its state is 'failed'. Finish it with resume="
    ):
        model_folder(str(run))
    Run(run).update_status(error="no space is left on the disk.\nmore")
    with pytest.raises(
        ValueError, match=r"'failed', as no space is left on the disk\. Mend that and finish it with resume="
    ):
        model_folder(str(run))
    (run / "model").mkdir()
    assert model_folder(str(run)) == str(run / "model")
    assert model_folder("some/name") == "some/name"


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_alone_agree_on_a_folder(ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agreed: list[bool] = []
    monkeypatch.setattr(resume, "member", lambda: object() if ranks > 1 else None)
    monkeypatch.setattr(resume, "agree_on_launch", lambda: agreed.append(True))
    monkeypatch.setattr(resume, "agreed_folder", lambda _, __, choose: choose())
    assert resume.run_folder(_root_=composed([f"outputs={tmp_path}"])).startswith(str(tmp_path))
    assert len(agreed) == ranks - 1
