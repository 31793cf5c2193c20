"""No code from a recipe: what a config may build, from wherever it comes, and what only the user can allow."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf, flag_override

from tests.conftest import run_program
from tests.support.foreign_code import PLACES, RECIPES, TARGETS
from tests.support.in_process import Done, tiryns_here
from tiryns.conf.registry import OPTIONS
from tiryns.runner.build import bind, build
from tiryns.runner.cli.compose import compose, initialize
from tiryns.runner.cli.models.consolidate import consolidate
from tiryns.runner.config.permissions import check_hydra, check_permissions, on_command_line, words_to_repeat
from tiryns.runner.config.targets import KINDS, allow_targets, check_target, check_targets, locate
from tiryns.runner.launch.resume import saved_overrides


@pytest.fixture(scope="module")
def default() -> DictConfig:
    with initialize():
        return compose([])


def placed(place: str, node: dict[str, Any]) -> DictConfig:
    """A config that holds one node and no more."""
    config = OmegaConf.create({})
    OmegaConf.update(config, place, node)
    return config


def with_node(config: DictConfig, place: str, node: dict[str, Any]) -> DictConfig:
    copy = config.copy()
    with flag_override(copy, ["struct", "readonly"], [False, False]):
        OmegaConf.update(copy, place, node, merge=False, force_add=True)
    return copy


def assert_refused(done: Done, words: list[str], folder: Path) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.startswith("error: "), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert not list(folder.rglob("pwned*")), "it ran"
    assert not (folder / "outputs").exists(), "a run was begun"


@pytest.fixture
def _own_targets() -> Any:
    yield
    allow_targets([])


@pytest.mark.rows(60)
@pytest.mark.parametrize("target", TARGETS)
def test_target_that_runs_code_is_refused_at_every_place(target: str) -> None:
    assert len(TARGETS) > 100
    for place in PLACES:
        config = placed(place, {"_target_": target, "command": "touch pwned"})
        with pytest.raises((ValueError, ImportError)) as caught:
            check_targets(config)
        assert "\n" not in str(caught.value), caught.value
        assert repr(target) in str(caught.value), caught.value
        with pytest.raises((ValueError, ImportError)):
            locate(target, place)
    for place in ("hydra.callbacks.x", "hydra.callbacks.checks", "hydra.callbacks.x.inner", "hydra.launcher",
                  "hydra.sweeper", "hydra.sweeper.params.x", "hydra.help", "hydra.run"):  # fmt: skip
        with pytest.raises((ValueError, ImportError), match="target"):
            check_hydra(placed(place, {"_target_": target}))


def test_every_group_has_a_kind_and_takes_its_classes() -> None:
    assert set(OPTIONS) <= set(KINDS)
    fitting = {
        "callback.x": "lightning.pytorch.callbacks.LearningRateMonitor",
        "checkpoint": "lightning.pytorch.callbacks.ModelCheckpoint", "logger.x": "lightning.pytorch.loggers.CSVLogger",
        "optimizer": "torch.optim.AdamW", "scheduler": "torch.optim.lr_scheduler.CosineAnnealingLR",
        "model": "transformers.BertForMaskedLM", "trainer": "lightning.pytorch.Trainer",
        "hydra.callbacks.x": "hydra.experimental.callbacks.LogJobReturnCallback",
    }  # fmt: skip
    for place, target in fitting.items():
        check_target(target, place)
        with pytest.raises(ValueError, match="no registered option"):
            check_target(target, f"{place}.inner")
    for target in (fitting["callback.x"], "runner.callbacks.Progress", "torch.optim._adafactor.Adafactor"):
        with pytest.raises(ValueError, match=r"no subclass of torch\.optim\.Optimizer"):
            check_target(target, "optimizer")
    with pytest.raises(ValueError, match=r"no subclass of lightning\.pytorch\.LightningDataModule"):
        check_target("lightning.pytorch.demos.mnist_datamodule.MNISTDataModule", "data")
    with pytest.raises(ImportError, match=r"cannot find the target 'torch\.optim\.Adamm'"):
        check_target("torch.optim.Adamm", "optimizer")


def test_every_option_is_allowed_where_its_group_is(default: DictConfig) -> None:
    for group, options in OPTIONS.items():
        place = f"{group.replace('/', '.')}{'.x' if group in ('callback', 'logger') else ''}"
        for option in options.values():
            if target := getattr(option, "_target_", None):
                check_target(target, place)
    check_targets(default)
    check_hydra(default)


@pytest.mark.usefixtures("_own_targets")
def test_instructions_of_hydra_are_followed() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
    scheduler = {"_target_": "torch.optim.lr_scheduler.StepLR", "step_size": 3, "_convert_": "all"}
    assert bind(placed("scheduler", scheduler).scheduler)(optimizer).step_size == 3
    timer = {"_target_": "lightning.pytorch.callbacks.Timer", "_args_": ["00:00:01:00"], "interval": "epoch"}
    assert build(placed("callback.x", timer).callback.x).time_remaining() == 60
    allow_targets(["torch.optim.lr_scheduler.StepLR"])
    inner = {"_target_": "lightning.pytorch.Callback", "x": [{"deep": {**scheduler, "_partial_": True}}]}
    made: Any = bind(placed("callback.x", inner).callback.x)
    (deep,) = made.keywords["x"]
    assert deep["deep"](optimizer).step_size == 3


@pytest.mark.usefixtures("_own_targets")
def test_user_lists_packages_and_names_but_no_whole_library() -> None:
    allow_targets(["mine.callbacks", "torch.nn.Identity"])
    check_target("mine.callbacks.Mine", "callback.x")
    check_target("mine.callbacks.Mine", "data.source")
    check_target("torch.nn.Identity", "model.config.x")
    for target in ("mine.other.Mine", "mine.callbacks_of_theirs.Mine", "torch.nn.Linear"):
        with pytest.raises(ValueError, match="is not allowed"):
            check_target(target, "data.source")
    for whole in ("torch", "transformers", "lightning", "hydra", "runner", "os", "builtins", "subprocess"):
        with pytest.raises(ValueError, match="would allow whatever"):
            allow_targets([whole])


@pytest.mark.usefixtures("_own_targets")
def test_function_that_passes_through_a_listed_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "passing.py").write_text(
        "import os\nfrom os import system\n\n\ndef mine():\n    return 7\n\n\nclass Mine:\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    allow_targets(["passing"])
    assert locate("passing.mine", "callback.x")() == 7
    for target in ("passing.os.system", "passing.system"):
        with pytest.raises(ValueError, match="is really of"):
            locate(target, "callback.x")


@pytest.mark.rows(10)
@pytest.mark.parametrize("name", RECIPES)
def test_recipe_from_elsewhere_runs_nothing(tmp_path: Path, name: str) -> None:
    content, words = RECIPES[name]
    (tmp_path / "own" / "experiment").mkdir(parents=True)
    (tmp_path / "own" / "experiment" / "nice.yaml").write_text(f"# @package _global_\n{content}")
    swept = ["-m", "seed=1,2"] if name in ("sweeper", "params") else []
    done = tiryns_here(tmp_path, "--config-dir", "own", *swept, "experiment=nice")
    assert_refused(done, [words], tmp_path)


def strangers_run(folder: Path, overrides: Any) -> Path:
    folder.mkdir()
    (folder / "status.json").write_text(json.dumps({"state": "failed", "config_hash": "abc"}))
    (folder / "overrides.json").write_text(json.dumps(overrides))
    return folder


EVIL = "+callback.x={_target_: subprocess.run, args: [touch, pwned]}"


@pytest.mark.rows(4)
@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ([EVIL], ["'subprocess.run' is not allowed"]),
        (
            ["allowed_targets=[subprocess.run]", EVIL],
            ["allowed_targets lets code of others run", "give it there"],
        ),
        (["trust_remote_code=true"], ["trust_remote_code lets code of others run"]),
        (["data=energon", "data.path=x", "data.allow_dataset_code=true"], ["data.allow_dataset_code"]),
        (["--experimental-rerun=pwned.pickle"], ["is no override of a run"]),
        (["--config-dir=pwned"], ["is no override of a run"]),
        (["+hydra.callbacks.x={_target_: os.system}"], ["is no override of a run"]),
        (["hydra/launcher=slurm"], ["is no override of a run"]),
        (["resume=elsewhere"], ["is no override of a run"]),
        ([1, 2], ["is damaged"]),
        ({"seed": 1}, ["is damaged"]),
    ],
)
def test_resuming_a_strangers_folder_runs_nothing(tmp_path: Path, overrides: Any, words: list[str]) -> None:
    strangers_run(tmp_path / "theirs", overrides)
    assert_refused(tiryns_here(tmp_path, "resume=theirs"), words, tmp_path)


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("noted", "words"),
    [
        ({"overrides": ["seed=1,2", EVIL], "hydra": [], "flags": []}, ["'subprocess.run' is not allowed"]),
        ({"overrides": ["seed=1"], "hydra": ["+hydra.callbacks.x={_target_: os.system, command: x}"], "flags": []},
         ["'os.system' is not allowed"]),
        ({"overrides": ["seed=1"], "flags": [],
          "hydra": ["hydra/launcher=slurm", "hydra.launcher.setup=['touch pwned']"]},
         ["hydra/launcher submits jobs (slurm)"]),
        ({"overrides": ["seed=1"], "hydra": ["--experimental-rerun=x"], "flags": []}, ["is damaged"]),
        ({"overrides": ["seed=1"], "hydra": [], "flags": ["--experimental-rerun", "x"]}, ["is damaged"]),
        ({"overrides": "seed=1", "hydra": None}, ["is damaged"]),
    ],
)  # fmt: skip
def test_resuming_a_strangers_sweep_runs_nothing(tmp_path: Path, noted: Any, words: list[str]) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "sweep.json").write_text(json.dumps(noted))
    done = tiryns_here(tmp_path, "resume=theirs")
    assert_refused(done, words, tmp_path)


def test_setting_that_runs_code_counts_where_it_is_typed(default: DictConfig) -> None:
    config = with_node(default, "allowed_targets", ["mine", "torch.nn.Identity"])  # type: ignore[arg-type]
    check_permissions(config)
    check_permissions(config, ["seed=1", "allowed_targets=[mine,torch.nn.Identity]"])
    for words in ([], ["allowed_targets=[mine]"], ["+seed=1"], ["allowed_targets=[other],[mine]"]):
        message = r"give it there: 'allowed_targets=\[mine,torch\.nn\.Identity\]'"
        with pytest.raises(ValueError, match=message):
            check_permissions(config, words)
    parts = with_node(default, "hydra.launcher.additional_parameters", {"mail-type": "END", "prolog": "evil"})
    check_permissions(parts, ["hydra.launcher.additional_parameters={mail-type: END, prolog: evil}"])
    with pytest.raises(ValueError, match="additional_parameters lets code"):
        check_permissions(parts, ["hydra.launcher.additional_parameters.mail-type=END"])
    with on_command_line(["seed=1"]), pytest.raises(ValueError, match="allowed_targets"):
        check_permissions(config)


def test_setting_that_runs_code_counts_in_a_folder_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own" / "experiment").mkdir(parents=True)
    recipe = tmp_path / "own" / "experiment" / "nice.yaml"
    recipe.write_text("# @package _global_\nallowed_targets: [mine]\noptimizer:\n  lr: 0.5\n")
    words = ["experiment=nice", "scheduler.warmup_steps=5000"]
    done = tiryns_here(tmp_path, "--config-dir", "own", *words)
    assert_refused(done, ["allowed_targets lets code of others run"], tmp_path)
    monkeypatch.setenv("TIRYNS_CONF", str(tmp_path / "own"))
    done = tiryns_here(tmp_path, *words)
    assert_refused(done, ["do not fit into max_steps"], tmp_path)
    done = tiryns_here(tmp_path, *words, "resume=auto", "allowed_targets=[other]")
    assert_refused(done, ["do not fit into max_steps"], tmp_path)


def test_replayed_overrides_are_taken_as_they_stand(tmp_path: Path) -> None:
    run = strangers_run(tmp_path / "run", ["seed=7", "~callback.progress", "+a.b={c: 'd=e'}", "model@x=y"])
    words = ["seed=7", "~callback.progress", "+a.b={c: 'd=e'}", "model@x=y"]
    assert saved_overrides([f"resume={run}"]) == [*words, f"resume={run}"]


def test_words_that_run_code_are_named_when_a_run_stops(tmp_path: Path) -> None:
    words = ["seed=1", "allowed_targets=[mine]", "hydra.launcher.setup=[x]", "data.allow_dataset_code=true"]
    with on_command_line(words):
        assert words_to_repeat(tmp_path) == words[1:]
    twice = [*words[:2], "allowed_targets=[mine,others]"]
    assert words_to_repeat(tmp_path, twice) == twice[2:], "of two for one setting the later counts"
    assert words_to_repeat(tmp_path) == []


def test_model_of_a_strangers_run_is_not_made_by_their_code(tmp_path: Path) -> None:
    run = strangers_run(tmp_path / "theirs", [])
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "step-00000001.ckpt").touch()
    (run / "config.yaml").write_text("allowed_targets: [subprocess.run]\ntrust_remote_code: true\n")
    with pytest.raises(ValueError, match="allowed_targets lets code of others run"):
        consolidate(run / "checkpoints" / "step-00000001.ckpt", tmp_path / "model")


@pytest.mark.parametrize(
    "words", [["experiment=nice"], pytest.param(["resume=theirs"], marks=pytest.mark.slow)]
)
def test_a_process_runs_nothing_either(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "own" / "experiment").mkdir(parents=True)
    recipe = f"# @package _global_\n{RECIPES['hydras_callback'][0]}"
    (tmp_path / "own" / "experiment" / "nice.yaml").write_text(recipe)
    strangers_run(
        tmp_path / "theirs", ["+callback.x={_target_: torch.utils.collect_env.run, command: touch pwned}"]
    )
    done = run_program("--config-dir", "own", *words, cwd=tmp_path, check=False)
    assert_refused(
        Done(done.returncode, done.stdout, done.stderr), ["'torch.utils.collect_env.run'"], tmp_path
    )
