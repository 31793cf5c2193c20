"""What the runner adds to a step: a whole fit against a bare PyTorch loop over the same micro-batches.

Both run the same model on the same global batches with the same optimizer, in turn; the runner's side has loading,
schedule, logging, progress, audit and throughput on. The loop loads its batches beforehand. Times are CPU seconds of
the process, which other work on the machine does not change. Once the default run, loading in this process; once a tiny
model, with a loader of its own, where what the runner does itself shows best.
"""

import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback

OVERRIDES = [
    "trainer=cpu", "trainer.validate_every=0", "trainer.precision=32-true", "checkpoint.every_steps=0",
    "trainer.log_every=10",
]  # fmt: skip
RUNS = {
    "the default run": ["trainer.max_steps=40", "data.num_workers=0"],
    "a tiny model": [
        "trainer.max_steps=300", "data.num_workers=1", "model=bert_tiny", "sampler.global_batch_size=4",
        "data.max_length=32",
    ],
}  # fmt: skip


def compose_config(folder: Path, overrides: list[str]) -> Any:
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    from runner.resume import run_folder

    OmegaConf.register_new_resolver("run_folder", run_folder, replace=True)
    with initialize_config_module("conf", version_base="1.3"):
        return compose("config", [*OVERRIDES, *overrides, f"outputs={folder}"])


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
    from runner.build import build, build_all
    from runner.folder import RunFolder

    run = RunFolder(folder)
    run.begin(config, [])
    data, _, module = parts(config)
    clock = Clock()
    trainer = build(
        config.trainer,
        callbacks=[
            *build_all(config.callback).values(),
            build(config.checkpoint, folder=run.checkpoints),
            clock,
        ],
        loggers=build_all(config.logger, folder=str(folder)),
        folder=run,
        resumed_step=0,
        max_steps=config.trainer.max_steps,
    )
    with open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink):
        trainer.fit(module, data)
    return clock.seconds


def parts(config: Any) -> Any:
    """Data, objective and module as a run has them, freshly initialised."""
    from runner.build import bind, build
    from runner.models.packed_rows import settle_layout

    steps = config.trainer.max_steps
    data = build(config.data)
    data.prepare_data()
    torch.manual_seed(config.seed)
    model = build(config.model, tokenizer=data.tokenizer)
    objective = build(config.objective, **data.collator_arguments())
    data.connect(bind(config.sampler), objective, steps, None, config.seed, accept_changes=False)
    task_model = objective.task_model(model)
    data.layout = settle_layout(data.layout, objective, task_model)
    module = build(
        config.module, model=task_model, optimizer=bind(config.optimizer),
        scheduler=bind(config.scheduler), max_steps=steps, seed=config.seed, log_every=10, baselines={},
    )  # fmt: skip
    return data, objective, module


def bare_seconds(config: Any) -> float:
    """Seconds of the same steps in a plain loop."""
    from runner.data.batches import GlobalBatches

    data, objective, module = parts(config)
    batches = GlobalBatches(
        data.train,
        data.sampler,
        objective,
        config.seed,
        1,
        0,
        1,
        config.data.micro_batch_tokens,
        None,
        packed=data.layout == "packed",
    )
    steps = config.trainer.max_steps
    loaded = [batches[k] for k in range(steps)]
    model = module.model
    optimizer = module.make_optimizer(model=model)
    scheduler = module.make_scheduler(optimizer=optimizer, max_steps=steps)
    began = 0.0
    for k, batch in enumerate(loaded):
        for micro_batch in batch["micro_batches"]:
            (model(micro_batch)["loss"] / batch["weight"]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        began = began if k else time.process_time()
    return time.process_time() - began


def main(repeats: int = 5) -> None:
    print(
        "| CPU ms a step | runner | bare loop on ready batches | the runner adds |\n|---|---|---|---|",
        flush=True,
    )
    for name, overrides in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            config = compose_config(Path(folder), overrides)
            steps = config.trainer.max_steps - 1
            pairs = [
                (runner_seconds(config, Path(folder) / str(i)) / steps, bare_seconds(config) / steps)
                for i in range(repeats)
            ]
        ours, bare = (1e3 * statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        added = 1e3 * statistics.median(a - b for a, b in pairs)
        print(f"| {name} | {ours:.1f} | {bare:.1f} | {added:.2f} ms, {(ratio - 1):+.1%} |", flush=True)
    print(f"\n(medians of {repeats} pairs)")


if __name__ == "__main__":
    main()
