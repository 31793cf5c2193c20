"""W&B keeps one run through stops and resumes, gets every row, and is offline where there is no key."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import children, wait_until
from tiryns.runner.logging.loggers import MetricsFile, finish_loggers, wandb_logger
from tiryns.runner.logging.wandb import UNFINISHED

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("_no_wandb_key")]


@pytest.fixture
def _no_wandb_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    yield
    import wandb

    wandb.finish()


def test_wandb_keeps_runs_apart_and_ids_over_resumes(tmp_path: Path) -> None:
    import wandb

    def train(name: str, metric: str) -> str:
        folder = tmp_path / "2026-11-03" / name
        folder.mkdir(parents=True, exist_ok=True)
        logger = wandb_logger("tiryns", "sweep", ["tag"], "auto", folder)
        logger.log_metrics({metric: 1.0}, 1)
        assert (logger.experiment.name, logger.experiment.group) == (f"2026-11-03/{name}", "sweep")
        return str(logger.experiment.id)

    first, second = train("a", "train/first"), train("b", "train/second")
    time.sleep(1.1)  # wandb names the folder of a part of a run by the second
    again = train("a", "train/again")
    wandb.finish()
    assert first == again != second

    a, b = (tmp_path / "2026-11-03" / name for name in "ab")
    # wandb's own process writes the last rows, a moment after `finish` returns
    wait_until(lambda: b"train/again" in sent(a) and b"train/second" in sent(b))
    assert b"train/first" in sent(a)
    assert b"train/second" not in sent(a)
    assert b"train/first" not in sent(b)


def sent(folder: Path) -> bytes:
    """What W&B's files of a run hold, in whatever part of it."""
    return b"".join(file.read_bytes() for file in folder.glob("wandb/offline-run-*/*.wandb")).replace(
        b"\n", b""
    )


def service() -> int:
    """The process of W&B that this one has started."""
    started = children(os.getpid())
    return [p for p in started if "wandb-core" in Path(f"/proc/{p}/cmdline").read_text()][-1]


def test_wandb_gets_the_files_of_a_run_without_a_word_of_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tiryns")
    (tmp_path / "command.txt").write_text("tiryns optimizer=lion")
    (tmp_path / "config.yaml").write_text("seed: 7\n")
    logger = wandb_logger("tiryns", None, [], "auto", tmp_path)
    logger.log_metrics({"train/loss": 1.0}, 1)
    (files,) = tmp_path.glob("wandb/offline-run-*/files")
    capfd.readouterr()
    logger.finish(exit_code=0)
    assert capfd.readouterr() == ("", "")
    told = [record.getMessage() for record in caplog.records if record.name == "tiryns"]
    assert told == [f"W&B has nothing of this run until you type: wandb sync {files.parent}"]
    assert (files / "command.txt").read_text() == "tiryns optimizer=lion"
    assert (tmp_path / "config.yaml").read_text() == "seed: 7\n"
    wait_until(lambda: b"command.txt" in sent(tmp_path))


@pytest.mark.slow
def test_wandb_gets_what_its_process_missed_when_the_run_goes_on(tmp_path: Path) -> None:
    def begin() -> tuple[Any, MetricsFile]:
        return wandb_logger("tiryns", None, [], "true", tmp_path), MetricsFile(tmp_path)

    def log(step: int) -> None:
        for logger in (online, file):
            logger.log_metrics({"train/loss": step / 10}, step)

    online, file = begin()
    log(1)
    for warning in (signal.SIGUSR1, signal.SIGUSR2):
        os.kill(service(), warning)
    time.sleep(0.3)
    log(2)
    assert not online._lost, "SLURM's warnings do not end it"
    os.kill(service(), signal.SIGTERM)
    time.sleep(1)
    log(3)
    log(4)
    online.mark_preempting()
    assert (tmp_path / UNFINISHED).read_text() == "1"
    finish_loggers([online])
    online, file = begin()
    for logger in (online, file):
        logger.resume(3)
    log(4)
    finish_loggers([online])
    assert not (tmp_path / UNFINISHED).exists()
    wait_until(lambda: all(f"{step / 10}".encode() in sent(tmp_path) for step in (1, 2, 3, 4)))


@pytest.mark.parametrize(
    ("offline", "environment", "netrc", "mode"),
    [
        ("auto", {}, "", "offline"),
        ("auto", {"WANDB_API_KEY": "k" * 40}, "", "online"),
        ("auto", {"WANDB_API_KEY": "k" * 40, "WANDB_MODE": "offline"}, "", "offline"),
        ("auto", {}, "machine api.wandb.ai login user password secret\n", "online"),
        ("auto", {}, "machine example.org login user password secret\n", "offline"),
        ("auto", {}, "machine machine\n", "offline"),
        ("True", {"WANDB_API_KEY": "k" * 40}, "", "offline"),
        ("false", {"WANDB_API_KEY": "k" * 40}, "", "online"),
    ],
)
def test_wandb_is_offline_without_a_key(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    offline: str,
    environment: dict[str, str],
    netrc: str,
    mode: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "netrc").write_text(netrc)
    assert wandb_logger("p", None, [], offline, tmp_path)._wandb_init["mode"] == mode


def test_wandb_options_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"offline=false needs a key: run `wandb login`"):
        wandb_logger("p", None, [], "false", tmp_path)
