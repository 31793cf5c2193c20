"""`import tiryns`: its names, and training, composing and reading runs in a program of one's own."""

import ast
import inspect
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import hydra
import numpy as np
import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf, open_dict

import tiryns
from tests.conftest import ROOT, TINY
from tests.documented.face.conftest import PACKAGES
from tests.support.in_process import succeeded, tiryns_here
from tiryns.conf import registry
from tiryns.runner.patches.hydra.start import VERSION_BASE
from tiryns.runner.run.folder import Run


def test_names_are_the_face_and_what_type_checkers_see() -> None:
    assert dir(tiryns) == sorted(tiryns.__all__)
    block = next(part for part in ast.parse(inspect.getsource(tiryns)).body if isinstance(part, ast.If))
    imports = [line for line in block.body if isinstance(line, ast.ImportFrom)]
    seen = {name.asname or name.name: (line.module, name.name) for line in imports for name in line.names}
    assert seen.keys() == set(tiryns.__all__)
    for name, (module, original) in seen.items():
        assert getattr(tiryns, name) is getattr(import_module(str(module)), original)
    with pytest.raises(AttributeError, match="module 'tiryns' has no attribute 'nothing'"):
        _ = tiryns.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_give_their_names_when_they_are_asked_for(package: str) -> None:
    module = import_module(package)
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_import_is_light_and_composing_needs_no_torch() -> None:
    program = (
        "import sys, tiryns\n"
        "print([m for m in ('hydra', 'numpy', 'torch') if m in sys.modules])\n"
        "tiryns.compose('optimizer=lion')\n"
        "print([m for m in ('torch', 'lightning', 'transformers') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n[]\n"


def test_composes_as_the_command_line(here: Path) -> None:
    words = ["experiment=diffusion", "optimizer=lion", "optimizer.lr=1e-4"]
    printed = tiryns_here(here, *words, "--cfg", "job").stdout
    assert OmegaConf.create(printed) == OmegaConf.create(OmegaConf.to_yaml(tiryns.compose(*words)))


def test_own_folder_is_composed_and_what_only_its_user_may_is_refused(here: Path) -> None:
    (here / "own" / "experiment").mkdir(parents=True)
    recipe = here / "own" / "experiment" / "mine.yaml"
    recipe.write_text("# @package _global_\ntrainer:\n  max_steps: 3\n")
    assert tiryns.compose("experiment=mine", config_dir=here / "own").trainer.max_steps == 3
    recipe.write_text("# @package _global_\ntrust_remote_code: true\n")
    with pytest.raises(ValueError, match="trust_remote_code lets code of others run"):
        tiryns.compose("experiment=mine", config_dir="own")
    assert tiryns.compose("experiment=mine", "trust_remote_code=true", config_dir="own").trust_remote_code
    with pytest.raises(ValueError, match="config_dir: there is no folder 'nowhere'"):
        tiryns.compose(config_dir="nowhere")


def test_works_beside_a_hydra_app_of_the_users_own(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)  # what another test in this process has left

    @dataclass
    class Adam:
        speed: int = 3

    store = ConfigStore.instance()
    ours = store.load("optimizer/adam.yaml")
    try:
        store.store(group="optimizer", name="adam", node=Adam)
        (here / "app").mkdir()
        (here / "app" / "main.yaml").write_text("defaults: [{optimizer: adam}]\nname: mine\n")
        base = {"version_base": "1.2"} if VERSION_BASE else {}  # 1.4 refuses a base of before
        with hydra.initialize_config_dir(str(here / "app"), **base):
            app, before = GlobalHydra.instance().hydra, hydra.version.getbase()
            theirs = hydra.compose("main")
            for _ in range(2):
                assert tiryns.compose("optimizer=adam").optimizer._target_ == "runner.optim.adam"
            assert GlobalHydra.instance().hydra is app
            assert hydra.version.getbase() == before
            assert HydraConfig.instance().cfg is None
            assert hydra.compose("main") == theirs == {"optimizer": {"speed": 3}, "name": "mine"}
    finally:
        registry._place_of("optimizer")["adam.yaml"] = ours


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["optimizer=lionn"], "Did you mean 'lion'"),
        (["optimizer.lrr=1"], "Did you mean 'optimizer.lr'"),
        (["--multirun"], "'--multirun' has no meaning here"),
        (["optimizer.lr=1,2"], "optimizer.lr=1,2 has several values: add -m for a sweep of them; a list is "),
        (["experiment=modernbert", "optimizer=muon"], "sets optimizer.betas, which optimizer=muon does not have: copy"),
        (["phases={name: a, steps: 10}"], "phases={name: a, steps: 10}: expected a list such as phases=[{name: "),
    ],
)  # fmt: skip
def test_wrong_words_are_a_value_error(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        tiryns.compose(*words)


def test_run_is_that_of_the_command_line(trained: tiryns.Run, text_file: Path, here: Path) -> None:
    succeeded(here, *TINY, f"data.source={text_file}", "model.dropout=0")
    [typed] = tiryns.runs()
    ours, theirs = trained.metrics(), typed.metrics()
    assert ours.keys() == theirs.keys()
    np.testing.assert_array_equal(ours["train/loss"], theirs["train/loss"])
    assert trained.status["config_hash"] == typed.status["config_hash"]
    assert (trained.path / "report.html").is_file()
    command = (trained.path / "command.txt").read_text()
    assert command.startswith("tiryns ")
    assert f"data.source={text_file}" in command


@pytest.mark.slow
def test_changed_config_is_noted_and_goes_on(text_file: Path, here: Path) -> None:
    config = tiryns.compose(*TINY, f"data.source={text_file}", "optimizer=lion")
    config.optimizer.lr = 5e-4
    config.trainer.max_steps = 4
    with open_dict(config):
        del config.callback["plateau"]
        config.callback.clock = {"_target_": "lightning.pytorch.callbacks.Timer", "duration": "00:01:00:00"}
    run = tiryns.run(config)
    assert run.config.optimizer.lr == 5e-4
    assert "plateau" not in run.config.callback
    noted = Run(run.path).overrides()
    assert {"optimizer=lion", "optimizer.lr=0.0005", "trainer.max_steps=4", "~callback.plateau"} <= set(noted)
    Run(run.path).update_status(state="interrupted")
    succeeded(here, f"resume={run.path}")
    assert [found.path.resolve() for found in tiryns.runs()] == [run.path], "it goes on in its folder"
    assert tiryns.run(run.config, "trainer.max_steps=2").status["step"] == 2


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": {"_target_": "my.Optimizer", "lr": 0.1, "names": ["a'b", "c\\"], "deep": {"x": None}}},
        {"model": {"config": {"a.b/c": 3, "text": "it's ${seed} \\'s"}}},
        {"data": {"source": ["a.txt", "b c.txt"], "text_column": "true"}, "seed": 7},
        {"logger": {"mine": {"_target_": "my.Logger", "on": False}}},
    ],
)
def test_any_config_can_be_written_as_overrides(change: dict[str, Any]) -> None:
    from tiryns.runner.cli.compose import overrides_of
    from tiryns.runner.in_python import _composing

    config = tiryns.compose("data=files", "data.source=x.txt")
    with open_dict(config):
        for group, values in change.items():
            if group == "optimizer" or group == "seed":
                config[group] = values
            else:
                config[group].update(values)
    with _composing(None):
        words = overrides_of(config)
    assert tiryns.compose(*words) == config
    assert tiryns.compose() != config
