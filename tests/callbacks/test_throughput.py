import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger

from tests.callbacks.tiny_run import TinyModule, loader, tiny_trainer
from tiryns.runner.callbacks import CpuTime, Throughput, throughput

pytestmark = pytest.mark.filterwarnings("ignore")


class Clock:
    """Time that passes only when a test says so."""

    now = 5.0

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(throughput, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The CPU time of this process."""
    processor = Clock()
    monkeypatch.setattr(throughput, "cpu_seconds", lambda: processor.now)
    monkeypatch.setattr(CpuTime, "start_up", None)
    return processor


class SlowSave(Callback):
    """Saves after every step, or before other callbacks see the step's end, taking its time."""

    def __init__(self, clock: Clock, path: Path) -> None:
        self.clock, self.path = clock, path

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        trainer.save_checkpoint(self.path)
        self.clock.pass_by(1000)


def test_speed_is_by_the_time_of_steps_and_use_by_the_peak_of_all_devices(clock: Clock) -> None:
    counter = Throughput(window=10, peak_tflops=4.0)
    module = TinyModule(on_step=lambda: clock.pass_by(2.0))
    module.counts |= {"flops": 3e12}
    tiny_trainer(4, [counter]).fit(module, loader(4))
    speed, fill = counter.tokens_per_second, counter.fill
    assert (speed, fill) == pytest.approx((15.0, 0.75))
    assert counter.metrics() == pytest.approx(
        {"perf/tokens_per_second": speed, "perf/fill": fill, "perf/mfu": 3e12 / 2 / 4e12}
    )
    assert counter.total_tokens == 120


def test_waiting_for_data_counts(clock: Clock) -> None:
    counter = Throughput(window=100, peak_tflops=None)
    module = TinyModule(on_step=lambda: clock.pass_by(1.0))
    tiny_trainer(101, [counter]).fit(module, loader(101, on_read=lambda: clock.pass_by(1.0)))
    assert counter.tokens_per_second == pytest.approx(15.0, rel=0.02)  # the last batch is read one step early


@pytest.mark.parametrize("every", [1, 3])
def test_evaluation_is_left_out_and_no_step_is(clock: Clock, every: int) -> None:
    counter, seconds = Throughput(window=100, peak_tflops=None), iter(range(1, 10))
    module = TinyModule(
        on_step=lambda: clock.pass_by(next(seconds)), on_evaluation=lambda: clock.pass_by(500.0)
    )
    trainer = tiny_trainer(9, [counter], val_check_interval=every, limit_val_batches=2)
    trainer.fit(module, loader(9), loader(2))
    assert counter.tokens_per_second == pytest.approx(9 * 30 / 45)


@pytest.mark.parametrize("saves_first", [False, True])
def test_saving_is_left_out(clock: Clock, tmp_path: Path, saves_first: bool) -> None:
    counter, saver = Throughput(window=100, peak_tflops=None), SlowSave(clock, tmp_path / "a.ckpt")
    callbacks = [saver, counter] if saves_first else [counter, saver]
    module = TinyModule(on_step=lambda: clock.pass_by(1.0))
    tiny_trainer(5, callbacks).fit(module, loader(5))
    if saves_first:  # where a step's time cannot be told from the saving's, the step is not timed
        assert math.isnan(counter.tokens_per_second)
    else:
        assert counter.tokens_per_second == pytest.approx(30.0)
    assert counter.total_tokens == 150


def test_only_the_last_steps_count(clock: Clock) -> None:
    counter = Throughput(window=3, peak_tflops=None)
    times = iter([9.0, 9.0, 9.0, 1.0, 2.0, 3.0])
    tiny_trainer(6, [counter]).fit(TinyModule(on_step=lambda: clock.pass_by(next(times))), loader(6))
    assert counter.tokens_per_second == pytest.approx(90 / 6)


def test_total_goes_on_after_a_resume(clock: Clock, tmp_path: Path) -> None:
    first = Throughput(window=3, peak_tflops=None)
    trainer = tiny_trainer(4, [first])
    trainer.fit(TinyModule(), loader(10))
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    second = Throughput(window=3, peak_tflops=None)
    tiny_trainer(10, [second]).fit(TinyModule(), loader(10), ckpt_path=str(tmp_path / "a.ckpt"))
    assert (first.total_tokens, second.total_tokens) == (120, 300)


def test_nothing_is_claimed_where_nothing_is_counted(clock: Clock) -> None:
    counter, module = Throughput(window=3, peak_tflops=None), TinyModule(on_step=lambda: clock.pass_by(1.0))
    module.counts = {}
    tiny_trainer(3, [counter]).fit(module, loader(3))
    assert counter.metrics() == {}
    module.counts = {"tokens": 5}
    tiny_trainer(3, [counter]).fit(module, loader(3))
    assert counter.metrics() == {"perf/tokens_per_second": pytest.approx(5.0)}


class Logged(CSVLogger):
    """Keeps what is logged."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rows: list[tuple[int | None, dict[str, float]]] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:  # type: ignore[override]
        self.rows.append((step, metrics))

    @property
    def seconds(self) -> list[tuple[int | None, float]]:
        key = "time/cpu_seconds"
        return [(step, metrics[key]) for step, metrics in self.rows if key in metrics]


def trained(
    processor: Clock, folder: Path, seconds: float, steps: int = 4, resumed: Path | None = None
) -> list[tuple[int | None, float]]:
    """What is logged of steps that cost so many seconds each, with a validation of 3 seconds after every second one."""
    counter, logged = CpuTime(), Logged(folder)
    module = TinyModule(lambda: processor.pass_by(seconds), lambda: processor.pass_by(3.0))
    trainer = tiny_trainer(steps, [counter], logger=logged, val_check_interval=2, limit_val_batches=1)
    trainer.fit(module, loader(steps), loader(1), ckpt_path=resumed and str(resumed), weights_only=True)
    trainer.save_checkpoint(folder / "end.ckpt")
    return logged.seconds


def test_cost_of_a_run_has_start_up_steps_and_validations(processor: Clock, tmp_path: Path) -> None:
    assert trained(processor, tmp_path, 10.0) == [(2, 28.0), (4, 51.0)]


def test_runs_of_one_process_have_the_same_start_up(processor: Clock, tmp_path: Path) -> None:
    first = trained(processor, tmp_path, 10.0)
    processor.pass_by(1000.0)
    assert trained(processor, tmp_path, 10.0) == first
    assert trained(processor, tmp_path, 11.0) == [(2, 30.0), (4, 55.0)]


def test_resumed_run_adds_the_sessions_before(
    processor: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(processor, tmp_path, 10.0)
    processor.now = 7.0
    monkeypatch.setattr(CpuTime, "start_up", None)
    seconds = trained(processor, tmp_path, 10.0, steps=6, resumed=tmp_path / "end.ckpt")
    assert seconds[-1] == (6, 51.0 + 7.0 + 2 * 10.0 + 3.0)


def test_loader_processes_count_once_they_have_ended() -> None:
    before = throughput.cpu_seconds()
    subprocess.run([sys.executable, "-c", "sum(i * i for i in range(2_000_000))"], check=True)
    assert throughput.cpu_seconds() > before + 0.05
