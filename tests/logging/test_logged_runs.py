"""Whole runs with every logger at once: what W&B and TensorBoard get, over a resume, and that no secret is in it."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from iolaus.runner.run.folder import RunFolder
from tests.conftest import TINY, run_program, train_here
from tests.runs.test_train import continued, losses
from tests.support.wandb_files import history, of_run

LOGGED = ["logger=[csv,wandb,tensorboard]", "logger.wandb.project=herons", "logger.wandb.tags=[river,old]",
          "logger.wandb.group=birds", "checkpoint.every_steps=5", "checkpoint.keep_last=9"]  # fmt: skip
EVERY_RUN = {"train/loss", "optim/grad_norm", "train/epoch", "perf/tokens_per_second", "perf/fill"}


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> RunFolder:
    """A run that was killed after its fifth step, and went on to the twelfth."""
    folder = tmp_path_factory.mktemp("logged")
    whole = train_here(folder / "whole", text_file, *LOGGED)
    copy = continued(whole, 5, "copy")
    return train_here(copy.path, text_file, *LOGGED)


def test_wandb_gets_one_run_with_its_config_and_files(resumed: RunFolder) -> None:
    found = of_run(resumed.path)
    runs = [record.run for record in found if record.WhichOneof("record_type") == "run"]
    assert len(list(resumed.path.glob("wandb/offline-run-*"))) == 2
    assert {run.run_id for run in runs} == {(resumed.path / "wandb_id.txt").read_text().strip()}
    assert {(run.project, run.run_group, tuple(run.tags)) for run in runs} == {
        ("herons", "birds", ("river", "old"))
    }
    config = {item.key: json.loads(item.value_json) for item in runs[0].config.update}
    assert config["optimizer"]["lr"] == 0.003
    assert config["data"]["vocab_size"] == 300
    names = {file.path for record in found for file in record.files.files}
    assert {"config.yaml", "command.txt", "environment.json", "metrics.csv"} <= names
    assert any(record.WhichOneof("record_type") == "exit" for record in found)


def test_wandb_gets_every_row_over_a_resume(resumed: RunFolder) -> None:
    rows = history(of_run(resumed.path))
    logged = [(int(r["trainer/global_step"]), float(r["train/loss"])) for r in rows if "train/loss" in r]
    assert [step for step, _ in logged] == [*range(1, 13), *range(6, 13)]
    ours = losses(resumed)
    assert all(ours[step] == pytest.approx(loss) for step, loss in logged)
    assert any("val/held_out/loss" in row for row in rows)


def test_tensorboard_shows_every_step_once(resumed: RunFolder) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(resumed.path / "tensorboard")).Reload()
    assert set(found.Tags()["scalars"]) >= EVERY_RUN
    assert [event.step for event in found.Scalars("train/loss")] == list(range(1, 13))
    assert [event.step for event in found.Scalars("val/held_out/loss")] == [6, 12]


def test_keys_are_alike_for_every_logger(resumed: RunFolder) -> None:
    with open(resumed.path / "metrics.csv") as file:
        columns = set(next(csv.reader(file))) - {"step", "time"}
    logged = {key for row in history(of_run(resumed.path)) for key in row}
    assert columns <= logged
    assert columns >= EVERY_RUN
    assert any(key.startswith("optim/lr/") for key in columns)


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


def test_secrets_are_in_no_file_of_a_run(tmp_path: Path, text_file: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "own" / "callback").mkdir(parents=True)
    (tmp_path / "own" / "callback" / "mine.yaml").write_text(
        "mine:\n  _target_: mine.Mine\n  api_token: ${oc.env:MY_SERVICE}\n"
        "  password: fake-password-of-yaml\n  options: {}\n"
    )
    command = [
        "--config-dir", "own", *TINY, f"data.source={text_file}", "trainer.max_steps=2", "callback=[default,mine]",
        "allowed_targets=[mine]", "+callback.mine.options.token=fake-token-of-command", "logger=[csv,wandb]",
    ]  # fmt: skip
    done = run_program(
        *command, cwd=tmp_path, check=False, PYTHONPATH=f"{Path(__file__).parents[2]}:{tmp_path}", **SECRETS
    )
    assert done.returncode == 1
    assert "cannot reach the service with *** *** ***" in done.stderr, done.stderr
    (folder,) = (tmp_path / "outputs").glob("*/*")
    assert "connecting with *** *** ***" in (folder / "train.log").read_text()
    hidden = [*SECRETS.values(), "fake-password-of-yaml", "fake-token-of-command"]
    files = [path for path in (tmp_path / "outputs").rglob("*") if path.is_file()]
    assert {".ckpt", ".html", ".wandb", ".yaml", ".csv", ".log", ".json"} <= {path.suffix for path in files}
    for path in files:
        content = path.read_bytes()
        assert not [secret for secret in hidden if secret.encode() in content], path


def test_checkpoints_hold_tensors_and_figures_alone(resumed: RunFolder) -> None:
    import torch

    def kinds(value: Any) -> set[type]:
        inner = (
            value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        )
        return {type(value), *(kind for one in inner for kind in kinds(one))}

    saved = torch.load(resumed.checkpoints / "last.ckpt", weights_only=True)
    assert "hyper_parameters" not in saved
    assert {kind.__name__ for kind in kinds(saved)} <= {
        "dict", "OrderedDict", "list", "tuple", "str", "int", "float", "bool", "NoneType", "Tensor",
    }  # fmt: skip
