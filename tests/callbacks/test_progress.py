import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.callbacks.tiny_run import TinyModule, loader, tiny_trainer
from tests.support.composed import composed
from tiryns.runner.callbacks import Progress, Throughput

pytestmark = pytest.mark.filterwarnings("ignore")

NEVER = 1e6


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    return Terminal()


class Loss:
    """A loss that notes how often it is read, as reading waits for the device."""

    reads = 0

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value

    def detach(self) -> "Loss":
        return self

    def __float__(self) -> float:
        Loss.reads += 1
        return float(self.value)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_lines_tell_step_loss_rate_speed_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    tiny_trainer(20, [Throughput(5, None), Progress(4, NEVER)]).fit(TinyModule(), loader(20))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step")]
    assert [line.split()[1] for line in lines] == ["1/20", *(f"{step}/20" for step in range(2, 21, 2))]
    assert re.fullmatch(r"step 10/20 loss \d+\.\d{3} lr 1\.0e-02 [\d,]+ tok/s \d+:\d\d left", lines[5])
    assert lines[-1].endswith(" 0:00 left")


def test_long_steps_have_a_line_each_time_the_wait_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    tiny_trainer(30, [Progress(4, 1e-9)]).fit(TinyModule(), loader(30))
    assert sum(line.startswith("step") for line in capsys.readouterr().out.splitlines()) == 30


def test_rate_is_the_one_the_step_was_made_with(capsys: pytest.CaptureFixture[str]) -> None:
    module = TinyModule()

    def halve() -> None:
        module.trainer.optimizers[0].param_groups[0]["lr"] /= 2

    module.on_step = halve
    tiny_trainer(3, [Progress(4, NEVER)]).fit(module, loader(3))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step")]
    assert [line.split(" lr ")[1].split()[0] for line in lines] == ["1.0e-02", "5.0e-03", "2.5e-03"]


def test_validation_figures_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = tiny_trainer(6, [Progress(4, NEVER)], val_check_interval=3, limit_val_batches=2)
    trainer.fit(TinyModule(), loader(6), loader(2))
    out = capsys.readouterr().out
    assert re.search(r"^step 3 val/validation/loss \d+\.\d{4}$", out, re.MULTILINE)
    assert re.search(r"^step 6 val/validation/loss", out, re.MULTILINE)
    trainer.validate(TinyModule(), loader(2), verbose=False)
    assert "val/validation/loss" in capsys.readouterr().out
    trainer.test(TinyModule(), loader(2), verbose=False)
    assert "test/loss" in capsys.readouterr().out


def test_resumed_run_goes_on_at_its_step(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trainer = tiny_trainer(7, [Progress(4, NEVER)])
    trainer.fit(TinyModule(), loader(10))
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    capsys.readouterr()
    tiny_trainer(10, [Progress(4, NEVER)]).fit(TinyModule(), loader(10), ckpt_path=str(tmp_path / "a.ckpt"))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step")]
    assert lines[0].startswith("step 8/10")
    assert lines[-1].startswith("step 10/10")


def test_bar_shows_everything_in_a_terminal(terminal: Terminal) -> None:
    progress = Progress(1000, NEVER)
    trainer = tiny_trainer(6, [Throughput(3, None), progress], val_check_interval=3, limit_val_batches=2)
    with redirect_stdout(terminal):
        trainer.fit(TinyModule(), loader(6), loader(2))
    shown = plain(terminal.getvalue())
    last = shown.splitlines()[-1]
    assert re.search(r"train +━+ +6/6 +loss \d\.\d{3} +lr 1\.0e-02 +[\d,]+ tok/s +0:00 left", last)
    assert "validation" in shown
    assert "step 3 val/validation/loss" in shown
    assert "\x1b[?25h" in terminal.getvalue().split("\x1b[?25l")[-1], "the cursor is not given back"


def test_terminal_is_given_back_after_an_error(terminal: Terminal) -> None:
    def fail() -> None:
        raise RuntimeError("broken step")

    with pytest.raises(RuntimeError, match="broken step"), redirect_stdout(terminal):
        tiny_trainer(6, [Progress(1000, NEVER)]).fit(TinyModule(on_step=fail), loader(6))
    assert terminal.getvalue().rstrip().endswith("\x1b[?25h")


def test_loss_is_read_only_for_a_refresh(capsys: pytest.CaptureFixture[str]) -> None:
    Loss.reads = 0
    module = TinyModule()
    module.loss_of = Loss
    tiny_trainer(200, [Progress(4, NEVER)]).fit(module, loader(200))
    assert Loss.reads == 11  # the first line, and one for each tenth


def test_only_the_main_process_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(4, 1e-9)
    progress.setup(SimpleNamespace(is_global_zero=False), TinyModule(), "fit")  # type: ignore[arg-type]
    trainer = tiny_trainer(3, [], limit_val_batches=1)
    trainer.fit(TinyModule(), loader(3))
    capsys.readouterr()
    progress.on_train_start(trainer, TinyModule())
    progress.on_validation_start(trainer, TinyModule())
    progress.on_validation_batch_end(trainer, TinyModule())
    progress.on_validation_end(trainer, TinyModule())
    progress.on_train_batch_end(trainer, TinyModule(), {"loss": torch.tensor(1.0)}, None, 0)
    progress.on_train_end(trainer, TinyModule())
    assert capsys.readouterr().out == ""


def test_end_by_epochs_is_known_too(capsys: pytest.CaptureFixture[str]) -> None:
    tiny_trainer(-1, [Progress(4, NEVER)], max_epochs=2).fit(TinyModule(), loader(5))
    assert capsys.readouterr().out.splitlines()[-1].startswith("step 10/10")


def compose(*overrides: str) -> dict[str, Any]:
    return dict(composed(overrides).callback)


def test_default_callbacks_take_others_beside_them() -> None:
    ours = list(compose("callback=default"))
    assert ours[:2] == ["throughput", "progress"]
    assert list(compose("callback=throughput")) == ["throughput"]
    assert compose("callback=[throughput,default]", "callback.progress=null")["progress"] is None
    mine = "+callback.mine._target_=runner.callbacks.Throughput"
    assert list(compose("callback=default", mine)) == [*ours, "mine"]
