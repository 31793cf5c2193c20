"""`import iolaus`: its names, and training, composing and reading runs in a program of one's own."""

import ast
import doctest
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
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

import iolaus
from iolaus.conf import registry
from iolaus.runner.run.folder import RunFolder
from tests.conftest import ROOT, TINY, run_program
from tests.support.in_process import iolaus_here

PAGE = ROOT / "docs" / "python.md"

DOCUMENTED = [
    *[
        "iolaus.old_names",
        "iolaus.runner.in_python",
        "iolaus.runner.run.errors",
        "iolaus.runner.order.epochs",
    ],
    *["iolaus.runner.data.energon.tasks", "iolaus.runner.data.read.documents"],
]

PACKAGES = [
    *["iolaus.runner.data", "iolaus.runner.data.energon", "iolaus.runner.data.demo", "iolaus.runner.modules"],
    *["iolaus.runner.objectives", "iolaus.runner.optim", "iolaus.runner.samplers", "iolaus.runner.loop"],
    *["iolaus.runner.loaders", "iolaus.runner.checkpoints", "iolaus.runner.logging", "iolaus.runner.config"],
    "iolaus.runner.sweeps",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def options() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = {group: dict(found) for group, found in registry.OPTIONS.items()}, dict(registry._OWN)
    yield
    registry.OPTIONS.clear()
    registry.OPTIONS.update(before[0])
    for group, name in registry._OWN.keys() - before[1].keys():
        del registry._place_of(group)[name]
    registry._OWN.clear()
    registry._OWN.update(before[1])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> iolaus.Run:
    """A finished run, trained from Python."""
    folder = tmp_path_factory.mktemp("trained")
    return iolaus.run(*TINY, f"data.source={text_file}", "model.dropout=0", f"outputs={folder}")


def test_names_are_the_face_and_what_type_checkers_see() -> None:
    assert dir(iolaus) == sorted(iolaus.__all__)
    block = next(part for part in ast.parse(inspect.getsource(iolaus)).body if isinstance(part, ast.If))
    seen = {name.name: line.module for line in block.body for name in line.names}  # type: ignore[attr-defined]
    assert seen.keys() == set(iolaus.__all__)
    for name, module in seen.items():
        assert getattr(iolaus, name) is getattr(import_module(str(module)), name)
    with pytest.raises(AttributeError, match="module 'iolaus' has no attribute 'nothing'"):
        _ = iolaus.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_give_their_names_when_they_are_asked_for(package: str) -> None:
    module = import_module(package)
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_import_is_light_and_composing_needs_no_torch() -> None:
    program = (
        "import sys, iolaus\n"
        "print([m for m in ('hydra', 'numpy', 'torch') if m in sys.modules])\n"
        "iolaus.compose('optimizer=lion')\n"
        "print([m for m in ('torch', 'lightning', 'transformers') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n[]\n"


def test_composes_as_the_command_line(iolaus: Any, here: Path) -> None:
    import iolaus as face

    words = ["experiment=diffusion", "optimizer=lion", "optimizer.lr=1e-4"]
    printed = iolaus(*words, "--cfg", "job").stdout
    assert OmegaConf.create(printed) == OmegaConf.create(OmegaConf.to_yaml(face.compose(*words)))


def test_own_folder_is_composed_and_what_only_its_user_may_is_refused(here: Path) -> None:
    (here / "own" / "experiment").mkdir(parents=True)
    recipe = here / "own" / "experiment" / "mine.yaml"
    recipe.write_text("# @package _global_\ntrainer:\n  max_steps: 3\n")
    assert iolaus.compose("experiment=mine", config_dir=here / "own").trainer.max_steps == 3
    recipe.write_text("# @package _global_\ntrust_remote_code: true\n")
    with pytest.raises(ValueError, match="trust_remote_code lets code of others run"):
        iolaus.compose("experiment=mine", config_dir="own")
    assert iolaus.compose("experiment=mine", "trust_remote_code=true", config_dir="own").trust_remote_code
    with pytest.raises(ValueError, match="config_dir: there is no folder 'nowhere'"):
        iolaus.compose(config_dir="nowhere")


def test_works_beside_a_hydra_app_of_the_users_own(here: Path) -> None:
    @dataclass
    class Adam:
        speed: int = 3

    store = ConfigStore.instance()
    ours = store.load("optimizer/adam.yaml")
    try:
        store.store(group="optimizer", name="adam", node=Adam)
        (here / "app").mkdir()
        (here / "app" / "main.yaml").write_text("defaults: [{optimizer: adam}]\nname: mine\n")
        with hydra.initialize_config_dir(str(here / "app"), version_base="1.2"):
            app, base = GlobalHydra.instance().hydra, hydra.version.getbase()
            theirs = hydra.compose("main")
            for _ in range(2):
                assert iolaus.compose("optimizer=adam").optimizer._target_ == "runner.optim.adam"
            assert GlobalHydra.instance().hydra is app
            assert hydra.version.getbase() == base
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
        (["optimizer.lr=1,2"], "Ambiguous value"),
    ],
)
def test_wrong_words_are_a_value_error(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        iolaus.compose(*words)


def test_run_is_that_of_the_command_line(trained: iolaus.Run, text_file: Path, here: Path) -> None:
    done = iolaus_here(here, *TINY, f"data.source={text_file}", "model.dropout=0")
    assert done.returncode == 0, done.stderr
    [typed] = iolaus.runs()
    ours, theirs = trained.metrics(), typed.metrics()
    assert ours.keys() == theirs.keys()
    np.testing.assert_array_equal(ours["train/loss"], theirs["train/loss"])
    assert trained.status["config_hash"] == typed.status["config_hash"]
    assert (trained.path / "report.html").is_file()
    command = (trained.path / "command.txt").read_text()
    assert command.startswith("iolaus ")
    assert f"data.source={text_file}" in command


def test_changed_config_is_noted_and_goes_on(text_file: Path, here: Path) -> None:
    config = iolaus.compose(*TINY, f"data.source={text_file}", "optimizer=lion")
    config.optimizer.lr = 5e-4
    config.trainer.max_steps = 4
    with open_dict(config):
        del config.callback["plateau"]
        config.callback.clock = {"_target_": "lightning.pytorch.callbacks.Timer", "duration": "00:01:00:00"}
    run = iolaus.run(config)
    assert run.config.optimizer.lr == 5e-4
    assert "plateau" not in run.config.callback
    noted = RunFolder(run.path).overrides()
    assert {"optimizer=lion", "optimizer.lr=0.0005", "trainer.max_steps=4", "~callback.plateau"} <= set(noted)
    RunFolder(run.path).update_status(state="interrupted")
    again = iolaus_here(here, f"resume={run.path}")
    assert again.returncode == 0, again.stderr
    assert [found.path.resolve() for found in iolaus.runs()] == [run.path], "it goes on in its folder"
    assert iolaus.run(run.config, "trainer.max_steps=2").status["step"] == 2


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
    from iolaus.runner.in_python import _composing, overrides_of

    config = iolaus.compose("data=files", "data.source=x.txt")
    with open_dict(config):
        for group, values in change.items():
            if group == "optimizer" or group == "seed":
                config[group] = values
            else:
                config[group].update(values)
    with _composing(None):
        words = overrides_of(config)
    assert iolaus.compose(*words) == config
    assert iolaus.compose() != config


def test_errors_are_exceptions_with_one_message(text_file: Path, here: Path) -> None:
    tiny = [*TINY, f"data.source={text_file}"]
    with pytest.raises(ValueError, match=r"^optimizer\.lr=-1\.0: it must be a number, 0 or more$"):
        iolaus.run(*tiny, "optimizer.lr=-1")
    assert not (here / "outputs").exists(), "nothing is written for a wrong config"
    with pytest.raises(ValueError, match="mode=inspect trains nothing"):
        iolaus.run(*tiny, "mode=inspect")
    with pytest.raises(FileNotFoundError, match=r"no file or folder nowhere.txt"):
        iolaus.run(*TINY, "data.source=nowhere.txt")
    with pytest.raises(iolaus.TrainingFailure, match="not a number at step"):
        iolaus.run(
            *tiny, "optimizer=sgd", "optimizer.lr=1e30", "module.max_grad_norm=0", "scheduler=constant"
        )
    assert iolaus.runs()[0].state == "failed"
    assert "not a number" in iolaus.runs()[0].status["error"]


def test_failing_rank_is_an_exception_too(text_file: Path, here: Path) -> None:
    """Two ranks are processes of their own; nothing ends the calling one."""
    words = [*TINY, f"data.source={text_file}", "trainer.devices=2", "trainer.max_steps=2"]
    run = iolaus.run(*words)
    assert run.state == "done"
    with pytest.raises(iolaus.TrainingFailure, match="is not a number"):
        iolaus.run(
            *words, "optimizer=sgd", "optimizer.lr=1e30", "module.max_grad_norm=0", "scheduler=constant"
        )


def test_ctrl_c_saves_and_is_a_keyboard_interrupt(text_file: Path, here: Path) -> None:
    def stop_when_it_trains() -> None:
        while not any((here / "outputs").glob("*/*/metrics.csv")):
            timer.wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Event()
    threading.Thread(target=stop_when_it_trains, daemon=True).start()
    with pytest.raises(KeyboardInterrupt, match="stopped by SIGINT"):
        iolaus.run(*TINY, f"data.source={text_file}", "trainer.max_steps=100000", "trainer.validate_every=0")
    [run] = iolaus.runs()
    assert run.state == "interrupted"
    assert run.checkpoints()


def test_run_is_read(trained: iolaus.Run) -> None:
    run = iolaus.open_run(str(trained.path))
    assert (run.state, run.status["step"], run.name) == ("done", 12, "/".join(run.path.parts[-2:]))
    assert repr(run) == f"Run({str(run.path)!r}, done, step 12)"
    table = run.metrics()
    assert table["step"].dtype == np.int64
    assert {len(column) for column in table.values()} == {len(table["step"])}
    losses = table["train/loss"][~np.isnan(table["train/loss"])]
    assert len(losses) == 12
    assert run.results["best_step"] in (6, 12)
    assert run.checkpoints()[-1].name == "step-00000012.ckpt"
    assert type(run.model()).__name__ == "BertForMaskedLM"
    assert not run.model().training
    assert run.model().config.vocab_size == len(run.tokenizer())
    assert run.config.model.hidden_size == 32


def test_missing_and_damaged_folders_are_told_in_one_line(trained: iolaus.Run, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^there is no run folder 'nowhere'$"):
        iolaus.open_run("nowhere")
    with pytest.raises(ValueError, match=r"is no run folder: it holds none of status.json"):
        iolaus.open_run(tmp_path)
    (tmp_path / "status.json").write_text('{"state": "do')
    with pytest.raises(ValueError, match=r"status.json' is damaged"):
        iolaus.open_run(tmp_path)
    (tmp_path / "status.json").write_text(json.dumps({"state": "failed"}))
    run = iolaus.open_run(tmp_path)
    assert list(run.metrics()) == ["step", "time"]
    with pytest.raises(ValueError, match=r"config.yaml' is missing or damaged"):
        _ = run.config
    (tmp_path / "config.yaml").write_text("seed: [1\n")
    with pytest.raises(ValueError, match=r"config.yaml' is missing or damaged"):
        _ = run.config
    for ask in (run.model, run.tokenizer, lambda: run.predict("x")):
        with pytest.raises(ValueError, match="there is no trained model in"):
            ask()
    with pytest.raises(ValueError, match="there is no folder 'nowhere'"):
        iolaus.runs("nowhere")


def test_language_model_fills_in(trained: iolaus.Run) -> None:
    rows = trained.predict(["the [MASK] runs", {"text": "seven [MASK]"}], steps=4, seed=3)
    assert [row["text"] for row in rows] == ["the [MASK] runs", "seven [MASK]"]
    assert all("[MASK]" not in row["predicted"] for row in rows)
    assert trained.predict("the [MASK] runs", steps=4, seed=3)[0]["text"] == "the [MASK] runs"
    assert trained.predict([]) == []
    with pytest.raises(ValueError, match="row 2 is a int: expected a text, or a mapping of its columns"):
        trained.predict(["a [MASK]", 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="there is nothing to fill in"):
        trained.predict("no mask")


def test_loop_of_ones_own_takes_the_steps_of_the_run(trained: iolaus.Run) -> None:
    config = trained.config
    config.module.max_grad_norm = 0
    before = OmegaConf.to_yaml(config)
    unclipped = iolaus.run(config)
    parts = iolaus.assemble(config)
    assert OmegaConf.to_yaml(config) == before, "the config that is given stays as it is"
    assert isinstance(parts.objective, iolaus.Collator)
    batches, losses = parts.data.train_batches(rank=0, num_ranks=1), []
    parts.model.train()
    for step in range(parts.max_steps):
        batch, loss = batches[step], 0.0
        for micro_batch in batch["micro_batches"]:
            share = parts.model(micro_batch)["loss"] / batch["weight"]
            share.backward()
            loss += share.item()
        parts.optimizer.step()
        parts.scheduler.step()
        parts.optimizer.zero_grad()
        losses.append(loss)
    table = unclipped.metrics()["train/loss"]
    assert losses == pytest.approx(table[~np.isnan(table)].tolist(), rel=1e-4)
    with pytest.raises(ValueError, match=r"optimizer\.lr=-1"):
        iolaus.assemble(OmegaConf.merge(config, {"optimizer": {"lr": -1}}))  # type: ignore[arg-type]


def test_page(here: Path, options: None) -> None:
    """Its Python blocks, one after the other."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    names: dict[str, Any] = {"__name__": "python"}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_of_docstrings_hold(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name))
    assert tried
    assert not failed


def test_example_of_register_holds(options: None) -> None:
    [example] = doctest.DocTestFinder(recurse=False).find(iolaus.register, "register")
    assert doctest.DocTestRunner().run(example).failed == 0


def test_every_public_function_and_class_has_an_example() -> None:
    without = [name for name in iolaus.__all__ if "Example" not in (getattr(iolaus, name).__doc__ or "")]
    assert not without


def test_program_of_the_users_own_runs_from_anywhere(text_file: Path, tmp_path: Path) -> None:
    words = ", ".join(
        map(repr, [*TINY, f"data.source={text_file}", "trainer.max_steps=2", "trainer.validate_every=0"])
    )
    (tmp_path / "mine.py").write_text(f"import iolaus\nprint(iolaus.run({words}).state)\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "done"
    [folder] = (tmp_path / "outputs").glob("*/*")
    assert run_program("trainer.max_steps=4", f"resume={folder}", cwd=tmp_path).returncode == 0
