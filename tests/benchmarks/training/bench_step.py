"""What the runner adds to a step: a whole fit against a bare PyTorch loop over the same micro-batches, and Lightning.

All run the same model on the same global batches with the same optimizer, in turn; the runner's side has loading,
schedule, logging, progress, audit and throughput on. The loop and Lightning are given ready batches; Lightning logs as
often as the runner. Times are CPU seconds of the process, which other work on the machine does not change. Once the
default run, loading in this process; once a tiny model, with a loader of its own, where what the runner does itself shows
best.
"""

import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger

from tests.benchmarks.fitting import fit_as_run, update

OVERRIDES = [
    "trainer=cpu", "trainer.validate_every=0", "trainer.precision=32-true", "checkpoint.every_steps=0",
    "trainer.log_every=10",
]  # fmt: skip
TINY_MODEL = [
    "model=bert_tiny", "sampler.global_batch_size=4", "data.max_length=32", "model.num_hidden_layers=1",
    "model.hidden_size=32", "model.intermediate_size=64",
]  # fmt: skip
RUNS = {
    "the default run": ["trainer.max_steps=40", "data.num_workers=0"],
    "a tiny model": ["trainer.max_steps=400", "data.num_workers=1", *TINY_MODEL],
}


def compose_config(folder: Path, overrides: list[str]) -> Any:
    from tests.support.composed import composed

    return composed([*OVERRIDES, *overrides, f"outputs={folder}"])


class Clock(Callback):
    """Times the steps from the second one on."""

    seconds = 0.0
    began = 0.0

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        now = time.process_time()
        if trainer.global_step == 1:
            self.began = now
        self.seconds = now - self.began


def runner_seconds(config: Any, folder: Path) -> float:
    """Seconds of the steps after the first in a fit as `runner.train` builds it."""
    clock = Clock()
    with open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink):
        fit_as_run(config, folder, clock)
    return clock.seconds


def ready(config: Any) -> tuple[list[Any], Any, Any, Any]:
    """All batches of the run, its model, optimizer and schedule."""
    from tiryns.runner.loop.assembly import assemble

    parts = assemble(config)
    batches = parts.data.train_batches(rank=0, num_ranks=1)
    loaded = [batches[k] for k in range(parts.max_steps)]
    return loaded, parts.model, parts.optimizer, parts.scheduler


def bare_seconds(config: Any, _: Path) -> float:
    """Seconds of the same steps in a plain loop."""
    loaded, model, optimizer, scheduler = ready(config)
    began = 0.0
    for k, batch in enumerate(loaded):
        update(model, optimizer, batch, max_norm=1.0)
        scheduler.step()
        began = began if k else time.process_time()
    return time.process_time() - began


class Plain(LightningModule):
    """The same steps as Lightning's own recipe has them: one batch, one loss, the rest is its business."""

    def __init__(self, model: Any, optimizer: Any, scheduler: Any) -> None:
        super().__init__()
        self.model, self._made = model, ([optimizer], [{"scheduler": scheduler, "interval": "step"}])

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = (
            sum(self.model(micro_batch)["loss"] for micro_batch in batch["micro_batches"]) / batch["weight"]
        )
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> Any:
        return self._made


def lightning_seconds(config: Any, folder: Path) -> float:
    """Seconds of the same steps in Lightning's Trainer, with its progress bar and csv."""
    loaded, *parts = ready(config)
    clock = Clock()
    trainer = Trainer(
        accelerator="cpu", max_steps=len(loaded), gradient_clip_val=1.0, callbacks=[clock], default_root_dir=folder,
        log_every_n_steps=config.trainer.log_every, logger=CSVLogger(folder), enable_checkpointing=False,
        enable_model_summary=False,
    )  # fmt: skip
    with open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink):
        trainer.fit(Plain(*parts), torch.utils.data.DataLoader(loaded, batch_size=None))  # type: ignore[arg-type]
    return clock.seconds


def main(repeats: int = 5) -> None:
    torch.set_num_threads(1)
    ways = {"runner": runner_seconds, "bare": bare_seconds, "Lightning": lightning_seconds}
    print(
        "| CPU ms a step | bare loop on ready batches | Lightning adds to it | the runner adds |\n|---|---|---|---|",
        flush=True,
    )
    for name, overrides in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            config = compose_config(Path(folder), overrides)
            rounds = [
                {way: seconds(config, Path(folder) / f"{way}{i}") for way, seconds in ways.items()}
                for i in range(repeats)
            ]
        scale = 1e3 / (config.trainer.max_steps - 1)
        bare = statistics.median(times["bare"] for times in rounds) * scale
        added = {
            way: statistics.median(times[way] - times["bare"] for times in rounds) * scale
            for way in ("Lightning", "runner")
        }
        cells = " | ".join(f"{ms:.2f} ms, {ms / bare:+.1%}" for ms in added.values())
        print(f"| {name} | {bare:.1f} | {cells} |", flush=True)
    print(f"\n(medians of {repeats} rounds)")
