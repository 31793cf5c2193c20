import csv
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from tests.callbacks.tiny_run import TinyModule, loader, tiny_trainer
from tests.support import needs
from tiryns.runner.logging.loggers import MetricsFile, tensorboard_logger
from tiryns.runner.logging.resumable import keep_id, kept_id
from tiryns.runner.run.metrics_file import read_metrics

pytestmark = pytest.mark.filterwarnings("ignore")

KEYS = st.sampled_from(["train/loss", "val/books/loss", "optim/lr/decay", 'odd,"name"', "größe"])
ROWS = st.lists(st.dictionaries(KEYS, st.floats(width=64), min_size=1), min_size=1, max_size=12)


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "time"} for row in csv.DictReader(file)]


def test_row_is_on_disk_when_the_call_returns(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path)
    before = time.time()
    metrics.log_metrics({"train/loss": 2.5, "train/epoch": 1}, 10)
    assert rows_of(tmp_path) == [{"step": "10", "train/loss": "2.5", "train/epoch": "1"}]
    (series, _) = read_metrics(tmp_path / "metrics.csv").values()
    assert before - 1 <= series.times[0] <= time.time() + 1


@given(rows=ROWS, reopened_after=st.integers(0, 12))
@settings(max_examples=40)
def test_what_is_logged_is_what_is_read(
    rows: list[dict[str, float]], reopened_after: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    metrics = MetricsFile(folder)
    for step, row in enumerate(rows):
        if step == reopened_after:
            metrics = MetricsFile(folder)
        metrics.log_metrics(row, step)
    found = read_metrics(folder / "metrics.csv")
    for key in {key for row in rows for key in row}:
        logged = [(step, row[key]) for step, row in enumerate(rows) if key in row]
        assert found[key].steps.tolist() == [step for step, _ in logged]
        assert list(map(repr, found[key].values.tolist())) == [repr(value) for _, value in logged]


def test_resume_of_a_run_without_metrics_leaves_nothing(tmp_path: Path) -> None:
    MetricsFile(tmp_path).resume(4)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("resumes", [True, False])
def test_file_cut_at_any_byte_goes_on_with_its_whole_rows(tmp_path: Path, resumes: bool) -> None:
    metrics = MetricsFile(tmp_path)
    for step in (1, 2, 3):
        metrics.log_metrics({"train/loss": step + 0.125, "val/books/loss": 4.0}, step)
    whole = (tmp_path / "metrics.csv").read_bytes()
    for cut in range(len(whole) + 1):
        (tmp_path / "metrics.csv").write_bytes(whole[:cut])
        lines = whole[:cut].count(b"\n")
        again = MetricsFile(tmp_path)
        if resumes:
            again.resume(3)
        again.log_metrics({"train/loss": 9.0}, 4)
        again.finalize("success")
        expected = [f"{step}" for step in (1, 2, 3)[: max(0, lines - 1)]] + ["4"]
        assert [row["step"] for row in rows_of(tmp_path)] == expected
        assert rows_of(tmp_path)[-1]["train/loss"] == "9.0"


def test_resumed_training_writes_the_rows_of_one_never_stopped(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    tiny_trainer(9, [], MetricsFile(whole)).fit(TinyModule(), loader(9))
    stopped = tiny_trainer(4, [], MetricsFile(parts))
    stopped.fit(TinyModule(), loader(9))
    stopped.save_checkpoint(tmp_path / "a.ckpt")
    tiny_trainer(7, [], MetricsFile(parts)).fit(TinyModule(), loader(9), ckpt_path=str(tmp_path / "a.ckpt"))
    resumed = MetricsFile(parts)
    resumed.resume(4)
    tiny_trainer(9, [], resumed).fit(TinyModule(), loader(9), ckpt_path=str(tmp_path / "a.ckpt"))
    assert rows_of(parts) == rows_of(whole)
    assert len(rows_of(parts)) == 9


def test_tensorboard_has_each_step_once_though_no_checkpoint_was_written(tmp_path: Path) -> None:
    events = needs.package("tensorboard.backend.event_processing.event_accumulator")
    for _ in range(2):
        logger: Any = tensorboard_logger(tmp_path)
        logger.resume(0)
        for step in (1, 2):
            logger.log_metrics({"train/loss": step / 8}, step)
        logger.finalize("success")
    found = events.EventAccumulator(str(tmp_path / "tensorboard"), {"scalars": 0}).Reload()
    assert [point.step for point in found.Scalars("train/loss")] == [1, 2]


def test_id_at_a_service_is_replaced_as_a_whole(tmp_path: Path) -> None:
    keep_id(tmp_path, "wandb", "abc")
    (tmp_path / "before").hardlink_to(tmp_path / "wandb_id.txt")
    keep_id(tmp_path, "wandb", "def")
    assert (kept_id(tmp_path, "wandb"), (tmp_path / "before").read_text()) == ("def", "abc\n")


@pytest.mark.parametrize(("row", "step"), [({"step": 1.0}, 3), ({"time": 1.0}, 3), ({"a": 1.0}, None)])
def test_row_that_fits_no_table_is_refused(tmp_path: Path, row: dict[str, float], step: int | None) -> None:
    with pytest.raises(ValueError, match="a row needs a step, and no metric may be named step or time"):
        MetricsFile(tmp_path).log_metrics(row, step)
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot write the metrics to '.*file/metrics\.csv': Not a directory"):
        MetricsFile(tmp_path / "file").log_metrics({"a": 1.0}, 1)


def test_full_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("step,time,a\n")
    metrics = MetricsFile(tmp_path)
    metrics.log_metrics({"a": 1.0}, 1)
    metrics._file = open("/dev/full", "w")  # noqa: SIM115
    with pytest.raises(
        OSError, match=r"cannot write the metrics to '.*metrics\.csv': No space left on device"
    ):
        metrics.log_metrics({"a": 1.0}, 2)


def test_only_the_main_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    metrics = MetricsFile(tmp_path)
    metrics.log_metrics({"a": 1.0}, 1)
    metrics.resume(0)
    metrics.log_hyperparams({"a": 1})
    assert list(tmp_path.iterdir()) == []
