"""Runs started, read and continued from Python."""

import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from omegaconf import OmegaConf

import tiryns
from tests.conftest import TINY, run_program
from tests.documented.face.conftest import PAGE
from tests.support.processes import warm_process


def test_errors_are_exceptions_with_one_message(text_file: Path, here: Path) -> None:
    tiny = [*TINY, f"data.source={text_file}"]
    with pytest.raises(ValueError, match=r"^optimizer\.lr=-1\.0: it must be a number, 0 or more$"):
        tiryns.run(*tiny, "optimizer.lr=-1")
    assert not (here / "outputs").exists(), "nothing is written for a wrong config"
    with pytest.raises(ValueError, match="mode=inspect trains nothing"):
        tiryns.run(*tiny, "mode=inspect")
    with pytest.raises(FileNotFoundError, match=r"no file or folder nowhere.txt"):
        tiryns.run(*TINY, "data.source=nowhere.txt")
    with pytest.raises(tiryns.TrainingFailure, match="not a number at step"):
        tiryns.run(*tiny, *DIVERGES)
    assert tiryns.runs()[0].state == "failed"
    assert "not a number" in tiryns.runs()[0].status["error"]


@pytest.mark.slow
def test_errors_have_no_frames_in_a_notebook(here: Path) -> None:
    with pytest.raises(ValueError, match="there is no optimizer=adamx") as raised:
        tiryns.compose("optimizer=adamx")
    (line,) = raised.value._render_traceback_()  # type: ignore[attr-defined]
    assert line == f"ValueError: {raised.value}"
    with pytest.raises(FileNotFoundError) as missing:
        tiryns.open_run("gone")
    assert len(missing.value._render_traceback_()) == 1  # type: ignore[attr-defined]


DIVERGES = ["optimizer=sgd", "optimizer.lr=1e30", "module.max_grad_norm=0", "scheduler=constant"]
RANKS = ["trainer.devices=2", "trainer.max_steps=2"]
"""Two processes of their own; nothing ends the calling one."""


@pytest.mark.slow
def test_failing_rank_is_an_exception_too(text_file: Path, here: Path) -> None:
    with pytest.raises(tiryns.TrainingFailure, match="is not a number"):
        tiryns.run(*TINY, f"data.source={text_file}", *RANKS, *DIVERGES)


def test_ctrl_c_saves_and_is_a_keyboard_interrupt(text_file: Path, here: Path) -> None:
    def stop_when_it_trains() -> None:
        while not any((here / "outputs").glob("*/*/metrics.csv")):
            timer.wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Event()
    threading.Thread(target=stop_when_it_trains, daemon=True).start()
    with pytest.raises(KeyboardInterrupt, match="stopped by SIGINT"):
        tiryns.run(*TINY, f"data.source={text_file}", "trainer.max_steps=100000", "trainer.validate_every=0")
    [run] = tiryns.runs()
    assert run.state == "interrupted"
    assert run.checkpoints()


def test_run_is_read(trained: tiryns.Run) -> None:
    run = tiryns.open_run(str(trained.path))
    assert (run.state, run.status["step"], run.name) == ("done", 12, "/".join(run.path.parts[-2:]))
    assert repr(run) == f"Run({str(run.path)!r}, done, step 12)"
    shown = ElementTree.fromstring(run._repr_html_())
    assert "".join(shown.itertext()).startswith(f"{run.name}: done, step 12")
    assert f"best val/held_out/loss{run.results['objective']:#.4g}" in "".join(shown.itertext())
    curves = [line.get("points", "").split() for line in shown.iter("polyline")]
    assert [len(points) for points in curves] == [12, 2], "training and validation"
    assert [link.get("href") for link in shown.iter("a")] == [str(run.path / "report.html")]
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


def test_missing_and_damaged_folders_are_told_in_one_line(trained: tiryns.Run, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^there is no run folder 'nowhere'$"):
        tiryns.open_run("nowhere")
    with pytest.raises(ValueError, match=r"is no run folder: it holds none of status.json"):
        tiryns.open_run(tmp_path)
    (tmp_path / "status.json").write_text('{"state": "do')
    with pytest.raises(ValueError, match=r"status.json' is damaged"):
        tiryns.open_run(tmp_path)
    (tmp_path / "status.json").write_text(json.dumps({"state": "failed"}))
    run = tiryns.open_run(tmp_path)
    assert list(run.metrics()) == ["step", "time"]
    with pytest.raises(ValueError, match=r"config.yaml' is missing"):
        _ = run.config
    (tmp_path / "config.yaml").write_text("seed: [1\n")
    with pytest.raises(ValueError, match=r"config.yaml, line 2, column 1: no valid YAML"):
        _ = run.config
    for ask in (run.model, run.tokenizer, lambda: run.predict("x")):
        with pytest.raises(ValueError, match="there is no trained model in"):
            ask()
    with pytest.raises(ValueError, match="there is no folder 'nowhere'"):
        tiryns.runs("nowhere")


def test_language_model_fills_in(trained: tiryns.Run) -> None:
    rows = trained.predict(["the [MASK] runs", {"text": "seven [MASK]"}], steps=4, seed=3)
    assert [row["text"] for row in rows] == ["the [MASK] runs", "seven [MASK]"]
    assert all("[MASK]" not in row["predicted"] for row in rows)
    assert trained.predict("the [MASK] runs", steps=4, seed=3)[0]["text"] == "the [MASK] runs"
    assert trained.predict([]) == []
    with pytest.raises(ValueError, match="row 2 is a int: expected a text, or a mapping of its columns"):
        trained.predict(["a [MASK]", 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="there is nothing to fill in"):
        trained.predict("no mask")


@pytest.mark.slow
def test_loop_of_ones_own_takes_the_steps_of_the_run(trained: tiryns.Run) -> None:
    config = trained.config
    config.module.max_grad_norm = 0
    before = OmegaConf.to_yaml(config)
    unclipped = tiryns.run(config)
    parts = tiryns.assemble(config)
    assert OmegaConf.to_yaml(config) == before, "the config that is given stays as it is"
    assert isinstance(parts.objective, tiryns.Collator)
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
        tiryns.assemble(OmegaConf.merge(config, {"optimizer": {"lr": -1}}))  # type: ignore[arg-type]


@pytest.mark.slow
def test_page(here: Path, options: None) -> None:
    """Its Python blocks up to the parts, one after the other."""
    text = PAGE.read_text().partition("\n## As a library\n")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 8
    names: dict[str, Any] = {"__name__": "python"}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)


def test_every_public_function_and_class_has_an_example() -> None:
    without = [name for name in tiryns.__all__ if "Example" not in (getattr(tiryns, name).__doc__ or "")]
    assert not without


@pytest.mark.slow
def test_program_of_the_users_own_runs_from_anywhere(text_file: Path, tmp_path: Path) -> None:
    words = ", ".join(
        map(repr, [*TINY, f"data.source={text_file}", "trainer.max_steps=2", "trainer.validate_every=0"])
    )
    (tmp_path / "mine.py").write_text(f"import tiryns\nprint(tiryns.run({words}).state)\n")
    done = warm_process("-m", "mine", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "done"
    [folder] = (tmp_path / "outputs").glob("*/*")
    assert run_program("trainer.max_steps=4", f"resume={folder}", cwd=tmp_path).returncode == 0
