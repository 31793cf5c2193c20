"""What `bench_contrastive` measures: a training on pairs by this project and by the trainer of sentence-transformers.

Both begin with the same weights, take the same rows in the same order, and step with fused AdamW at one rate.
"""

import contextlib
import io
import json
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.benchmarks.fitting import fit_as_run

RATE, CLIP, TEMPERATURE, LONGEST = 1e-3, 1.0, 0.05, 64


class Case(NamedTuple):
    """One training."""

    who: str
    """A name in `CONTENDERS`."""
    folder: str
    """It holds `model/` and `pairs.jsonl`."""
    batch: int
    """Pairs of a step."""
    steps: int
    order: list[list[int]]
    """The rows of each step; empty for this project's run, which tells them."""


class Measured(NamedTuple):
    """What came of it."""

    losses: list[float]
    seconds: float
    """Of the processor for a step, without the first one."""
    megabytes: float
    """What training adds to the memory of the process at its peak."""
    order: list[list[int]]


class Watch:
    """Losses and times of steps, and the memory of this process."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.times: list[float] = []
        self.before = _resident()

    def step(self, loss: Any) -> None:
        """A step has ended."""
        self.losses.append(float(loss))
        self.times.append(time.process_time())

    def measured(self, order: list[list[int]]) -> Measured:
        """All of it."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds = (self.times[-1] - self.times[0]) / (len(self.times) - 1)
        return Measured(self.losses, seconds, peak - self.before, order)


def _resident() -> float:
    """Megabytes that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def ours(case: Case) -> Measured:
    """The objective `contrastive` with the default micro-batches, in two passes."""
    from lightning.pytorch import Callback

    from tests.support.composed import composed
    from tiryns.runner.launch.processes import keep_freed_memory

    keep_freed_memory()
    model = f"{case.folder}/model"
    overrides = [
        "data=pairs", f"data.train={case.folder}/pairs.jsonl", f"data.tokenizer={model}", f"data.max_length={LONGEST}",
        "data.validation_documents=0", "data.num_workers=0", "objective=contrastive", "objective.pooling=mean",
        f"objective.temperature={TEMPERATURE}", "module=finetuning", f"module.max_grad_norm={CLIP}", "model=pretrained",
        f"model.name_or_path={model}", f"sampler.global_batch_size={case.batch}", f"optimizer.lr={RATE}",
        "optimizer.betas=[0.9,0.999]", "optimizer.eps=1e-8", "optimizer.weight_decay=0", "scheduler=constant",
        "trainer=cpu", "trainer.precision=32-true", f"trainer.max_steps={case.steps}", "trainer.validate_every=0",
        "checkpoint.every_steps=0", f"outputs={case.folder}/outputs",
    ]  # fmt: skip
    watch = Watch()

    class Watching(Callback):
        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
            watch.step(outputs["loss"])

    parts = fit_as_run(composed(overrides), Path(case.folder) / f"ours-{case.batch}", Watching())
    order = [parts.data.sampler.global_batch(step)[:, 1].tolist() for step in range(case.steps)]
    return watch.measured(order)


def theirs(case: Case, loss: str, **options: int) -> Measured:
    """SentenceTransformerTrainer with a loss of theirs.

    MultipleNegativesRankingLoss keeps the activations of all pairs, the cached one those of a few texts.
    """
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from sentence_transformers.sentence_transformer import losses, modules

    transformer = modules.Transformer(f"{case.folder}/model", max_seq_length=LONGEST)
    pooling = modules.Pooling(transformer.get_embedding_dimension(), "mean")
    model = SentenceTransformer(modules=[transformer, pooling], device="cpu")
    lines = (Path(case.folder) / "pairs.jsonl").read_text().splitlines()
    rows = [json.loads(lines[index]) for step in case.order for index in step]
    settings = SentenceTransformerTrainingArguments(
        output_dir=f"{case.folder}/theirs", max_steps=case.steps, per_device_train_batch_size=case.batch,
        learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=CLIP, use_cpu=True,
        optim="adamw_torch_fused", save_strategy="no", report_to=[], disable_tqdm=True, logging_steps=1,
        batch_sampler=lambda data, **given: DefaultBatchSampler(range(len(data)), **given),
    )  # fmt: skip
    watch = Watch()

    class Watching(SentenceTransformerTrainer):
        def training_step(self, *given: Any, **named: Any) -> Any:
            loss = super().training_step(*given, **named)
            watch.step(loss)
            return loss

    data = Dataset.from_list([{"anchor": row["query"], "positive": row["passage"]} for row in rows])
    made = getattr(losses, loss)(model, scale=1 / TEMPERATURE, **options)
    Watching(model=model, args=settings, train_dataset=data, loss=made).train()
    return watch.measured(case.order)


PLAIN, CACHED = "MultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss"
CONTENDERS: dict[str, Callable[[Case], Measured]] = {
    "Tiryns": ours,
    PLAIN: partial(theirs, loss=PLAIN),
    f"{CACHED}, 32 texts at a time": partial(theirs, loss=CACHED, mini_batch_size=32),
    f"{CACHED}, 128 texts at a time": partial(theirs, loss=CACHED, mini_batch_size=128),
}


def train(case: Case) -> Measured:
    """Trains silently on one thread."""
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        return CONTENDERS[case.who](case)
