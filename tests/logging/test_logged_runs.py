"""Whole runs with every logger at once: what W&B and TensorBoard get, over a resume, and that no secret is in it."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY, run_program, train_here
from tests.logging.logged import PACKAGES, THERE, logged
from tests.runs.test_train import continued
from tests.support import needs
from tests.support.wandb_files import of_run
from tiryns.runner.run.folder import Run

SERVICES = {"wandb": "project", "mlflow": "experiment_name", "trackio": "project"}
"""The loggers that know more of a run than its metrics, with their setting for what runs are gathered in."""
LOGGED = [f"logger=[{','.join(THERE)}]", "checkpoint.every_steps=5", "checkpoint.keep_last=9"]
for each in SERVICES.keys() & THERE:
    LOGGED += [
        f"logger.{each}.{SERVICES[each]}=herons",
        f"logger.{each}.tags=[river,old]",
        f"logger.{each}.group=birds",
    ]
EVERY_RUN = {"train/loss", "optim/grad_norm", "train/epoch", "perf/tokens_per_second", "perf/fill"}


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    """A run that was killed after its fifth step, and went on to the twelfth."""
    folder = tmp_path_factory.mktemp("logged")
    whole = train_here(folder / "whole", text_file, *LOGGED)
    copy = continued(whole, 5, "copy")
    return train_here(copy.path, text_file, *LOGGED)


@pytest.mark.slow
def test_wandb_gets_one_run_of_two_sessions(resumed: Run) -> None:
    found = of_run(resumed.path)
    runs = [record.run for record in found if record.WhichOneof("record_type") == "run"]
    assert len(list(resumed.path.glob("wandb/offline-run-*"))) == 2
    assert {run.run_id for run in runs} == {(resumed.path / "wandb_id.txt").read_text().strip()}
    assert {run.project for run in runs} == {"herons"}
    names = {file.path for record in found for file in record.files.files}
    assert {"config.yaml", "command.txt", "environment.json", "metrics.csv"} <= names
    assert any(record.WhichOneof("record_type") == "exit" for record in found)


@pytest.fixture(params=PACKAGES)
def logger(request: pytest.FixtureRequest) -> str:
    """Each logger whose packages are there."""
    for package in PACKAGES[request.param]:
        needs.package(package)
    return str(request.param)


def test_every_logger_has_the_same_figures_of_every_step_once(resumed: Run, logger: str) -> None:
    found, ours = logged(logger, resumed.path).points, logged("csv", resumed.path).points
    assert [step for step, _ in found["train/loss"]] == list(range(1, 13))
    assert [step for step, _ in found["val/held_out/loss"]] == [6, 12]
    assert all(len({step for step, _ in points}) == len(points) for points in found.values())
    assert found.keys() == ours.keys()
    assert found.keys() >= EVERY_RUN
    assert any(key.startswith("optim/lr/") for key in found)
    for key, points in found.items():
        assert [step for step, _ in points] == [step for step, _ in ours[key]], key
        assert [v for _, v in points] == pytest.approx([v for _, v in ours[key]], rel=1e-6, nan_ok=True), key


def test_every_logger_has_config_name_and_tags(resumed: Run, logger: str) -> None:
    found = logged(logger, resumed.path)
    assert found.learning_rate == 0.003
    assert found.name == resumed.name
    if logger in SERVICES:
        assert (found.tags, found.group) == ({"river", "old"}, "birds")


def test_tensorboard_has_config_and_samples(resumed: Run) -> None:
    events = needs.package("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(resumed.path / "tensorboard")).Reload()
    text = {name: found.Tensors(f"{name}/text_summary")[-1].tensor_proto for name in ("config", "samples")}
    assert "vocab_size: 300" in text["config"].string_val[0].decode()
    assert text["samples"].string_val[0].decode().count("\n") >= 2


def test_log_tells_what_the_screen_told_and_each_logged_step(resumed: Run) -> None:
    text = (resumed.path / "train.log").read_text()
    steps = [int(step) for step in re.findall(r"step (\d+): train/loss \d", text)]
    assert steps == [*range(1, 13), *range(6, 13)]
    assert re.search(r"step 12: val/held_out/loss \d", text)
    assert re.search(r"\n  training +\d+ documents, ", text)
    assert re.search(r"\n  validation loss, held_out +\d", text)
    assert "Traceback" not in text


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_log_has_the_traceback_of_a_failure(tmp_path: Path, text_file: Path, ranks: int) -> None:
    words = [
        f"data.source={text_file}",
        "optimizer.lr=1e20",
        "trainer.accelerator=cpu",
        f"trainer.devices={ranks}",
    ]
    done = run_program(*TINY, *words, "hydra.run.dir=run", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    text = (tmp_path / "run" / "train.log").read_text()
    assert "Traceback (most recent call last):" in text
    assert "Diverged: the loss or its gradient is not a number" in text


MINE = """
import logging
from lightning.pytorch import Callback


class Mine(Callback):
    def __init__(self, api_token, password, options):
        self.everything = f"{api_token} {password} {options['token']}"

    def on_train_start(self, trainer, module):
        logging.getLogger("mine").warning("connecting with %s", self.everything)

    def on_fit_end(self, trainer, module):
        raise ValueError(f"cannot reach the service with {self.everything}")
"""
SECRETS = {
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
    "HF_TOKEN": "hf_FakeTokenOfTheTests",
    "MY_SERVICE": "fake-service-value-7",
}


@pytest.mark.slow
def test_secrets_are_in_no_file_of_a_run(tmp_path: Path, text_file: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "own" / "callback").mkdir(parents=True)
    (tmp_path / "own" / "callback" / "mine.yaml").write_text(
        "mine:\n  _target_: mine.Mine\n  api_token: ${oc.env:MY_SERVICE}\n"
        "  password: fake-password-of-yaml\n  options: {}\n"
    )
    command = [
        "--config-dir", "own", *TINY, f"data.source={text_file}", "trainer.max_steps=2", "callback=[default,mine]",
        "allowed_targets=[mine]", "callback.mine.api_token=${oc.env:MY_SERVICE}",
        "+callback.mine.options.token=fake-token-of-command", "logger=[csv,wandb]",
    ]  # fmt: skip
    done = run_program(*command, cwd=tmp_path, check=False, **SECRETS)
    assert done.returncode == 1
    assert "cannot reach the service with *** *** ***" in done.stderr, done.stderr
    (folder,) = (tmp_path / "outputs").glob("*/*")
    log = (folder / "train.log").read_text()
    assert "connecting with *** *** ***" in log
    assert "cannot reach the service with *** *** ***" in log[log.index("Traceback") :]
    hidden = [*SECRETS.values(), "fake-password-of-yaml", "fake-token-of-command"]
    files = [path for path in (tmp_path / "outputs").rglob("*") if path.is_file()]
    assert {".ckpt", ".html", ".wandb", ".yaml", ".csv", ".log", ".json"} <= {path.suffix for path in files}
    for path in files:
        content = path.read_bytes()
        assert not [secret for secret in hidden if secret.encode() in content], path


def test_checkpoints_hold_tensors_and_figures_alone(resumed: Run) -> None:
    import torch

    def kinds(value: Any) -> set[type]:
        inner = (
            value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        )
        return {type(value), *(kind for one in inner for kind in kinds(one))}

    saved = torch.load(resumed.checkpoint_dir / "last.ckpt", weights_only=True)
    assert "hyper_parameters" not in saved
    assert {kind.__name__ for kind in kinds(saved)} <= {
        "dict", "OrderedDict", "list", "tuple", "str", "int", "float", "bool", "NoneType", "Tensor",
    }  # fmt: skip
