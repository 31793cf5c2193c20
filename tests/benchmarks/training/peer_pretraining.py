"""What `bench_end_to_end` measures: this project's run, and the ways one would write the same pretraining otherwise.

Each contender trains a freshly initialised model on the same documents and returns a `Clock`. All use fused AdamW at
one rate, clip gradients at 1, mask 15 % of the tokens and take the same number of documents a step.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from tests.benchmarks.clock import Clock
from tests.benchmarks.fitting import fit

RATE, MASKED, CLIP = 5e-4, 0.15, 1.0
WARM_UP = 2
"""Steps that are not timed: in the second the memory of a process still grows, as the optimizer's state is new."""


class Case(NamedTuple):
    """Tokenised documents, and how they are trained on."""

    config: Any
    """Of a run of this project: `data` and `trainer` are its own, the rest is shared."""
    documents: list[Tensor]
    tokenizer: Any
    make_model: Callable[[], Any]
    batch: int
    """Documents a step."""
    bf16: bool
    steps: int
    folder: Path
    seed: int = 0
    device: str = "cpu"
    workers: int = 0
    """Of the loader."""


def clock_of(case: Case) -> Clock:
    """A clock for the device; on a GPU the first steps warm up."""
    return Clock(case.device, warm_up=WARM_UP if case.device == "cpu" else case.steps // 3)


Contender = Callable[[Case], tuple[Clock, nn.Module]]


def ours(case: Case) -> tuple[Clock, nn.Module]:
    """A fit as `runner.train` builds it: loading, schedule, logging, audit and throughput included."""
    from lightning.pytorch import Callback

    from tiryns.runner.build import bind, build
    from tiryns.runner.launch.processes import keep_freed_memory
    from tiryns.runner.models.packed.rows import choose_layout

    keep_freed_memory()
    config, clock = case.config, clock_of(case)

    class Watch(Callback):
        def on_train_batch_start(self, *_: Any) -> None:
            clock.begin()

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
            clock.step(outputs["tokens"])

    data = build(config.data)
    data.prepare_data()
    objective = build(config.objective, **data.collator_arguments())
    data.connect(bind(config.sampler), objective, case.steps, None, case.seed, accept_changes=False)
    model = objective.task_model(case.make_model())
    data.layout = choose_layout(data.layout, objective, model)
    module = build(
        config.module, model=model, optimizer=bind(config.optimizer), scheduler=bind(config.scheduler),
        max_steps=case.steps, seed=case.seed, log_every=10, baselines={},
    )  # fmt: skip
    fit(config, case.folder / f"ours-{time.monotonic_ns()}", module, data, case.steps, Watch())
    return clock, model.pretrained


def hugging_face(case: Case, **arguments: Any) -> tuple[Clock, nn.Module]:
    """Their Trainer with their collator for masked language modelling, padding to the longest of each batch."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    clock = clock_of(case)

    class Watch(TrainerCallback):
        tokens = 0

        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.step(self.tokens)

    watch = Watch()

    class Counting(Trainer):
        def training_step(self, model: Any, inputs: Any, *rest: Any) -> Any:
            clock.begin()
            watch.tokens = int(inputs["attention_mask"].sum())
            return super().training_step(model, inputs, *rest)

    settings = TrainingArguments(
        output_dir=str(case.folder / "theirs"), max_steps=case.steps, learning_rate=RATE, seed=case.seed,
        per_device_train_batch_size=case.batch, weight_decay=0.01, lr_scheduler_type="constant", bf16=case.bf16,
        max_grad_norm=CLIP, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=case.device == "cpu",
        dataloader_num_workers=case.workers, optim="adamw_torch_fused",
        logging_steps=10, **arguments,
    )  # fmt: skip
    model = case.make_model()
    trainer = Counting(
        model=model, args=settings, train_dataset=dataset(case), data_collator=Masking(case),
        callbacks=[watch],
    )  # fmt: skip
    trainer.train()
    return clock, model


def tuned(case: Case) -> tuple[Clock, nn.Module]:
    """The same with batches of like lengths and logits of the masked tokens alone.

    Their sampler puts the longest batches first, so a short run takes some of its batches at random.
    """
    from transformers.trainer_pt_utils import LengthGroupedSampler

    generator = torch.Generator().manual_seed(case.seed)
    lengths = [len(document) for document in case.documents]
    order = torch.tensor(list(LengthGroupedSampler(case.batch, lengths=lengths, generator=generator)))
    batches = order[: len(order) // case.batch * case.batch].view(-1, case.batch)
    chosen = batches[torch.randperm(len(batches), generator=generator)[: case.steps]].flatten().tolist()
    sparse = case._replace(
        documents=[case.documents[i] for i in chosen], make_model=lambda: SparseLoss(case.make_model())
    )
    clock, model = hugging_face(sparse, train_sampling_strategy="sequential")
    assert isinstance(model, SparseLoss)
    return clock, model.model


def lightning(case: Case) -> tuple[Clock, nn.Module]:
    """A plain LightningModule over a shuffling DataLoader with the same collator."""
    import lightning.pytorch as pl

    clock = clock_of(case)

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = case.make_model()

        def training_step(self, batch: Any, _: int) -> Tensor:
            self.tokens = int(batch["attention_mask"].sum())
            loss = self.model(**batch).loss
            self.log("loss", loss)
            return loss

        def on_train_batch_end(self, *_: Any) -> None:
            clock.step(self.tokens)

        def configure_optimizers(self) -> Any:
            # Lightning refuses to clip for a fused optimizer under bf16
            return torch.optim.AdamW(self.parameters(), RATE, weight_decay=0.01, fused=not case.bf16)

    module = Module()
    trainer = pl.Trainer(
        accelerator="cpu", max_steps=case.steps, max_epochs=-1, precision="bf16-mixed" if case.bf16 else "32-true",
        gradient_clip_val=CLIP, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        logger=False, default_root_dir=str(case.folder),
    )  # fmt: skip
    trainer.fit(module, loader(case))
    return clock, module.model


def bare(case: Case) -> tuple[Clock, nn.Module]:
    """A PyTorch loop over the same padded batches."""
    clock, model = clock_of(case), case.make_model()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01, fused=True)
    batches = iter(loader(case))
    model.train()
    for _ in range(case.steps):
        batch = next(batches)
        with torch.autocast("cpu", torch.bfloat16, enabled=case.bf16):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        clock.step(int(batch["attention_mask"].sum()))
    return clock, model


class SparseLoss(nn.Module):
    """A masked language model of BERT's kind with its head on the masked tokens alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.config = model, model.config

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        hidden = self.model.base_model(input_ids=input_ids, attention_mask=attention_mask)[0]
        chosen = labels != -100
        head = (
            self.model.cls
            if hasattr(self.model, "cls")
            else nn.Sequential(self.model.head, self.model.decoder)
        )
        loss = functional.cross_entropy(head(hidden[chosen]).float(), labels[chosen])
        return {"loss": loss}


def dataset(case: Case) -> Any:
    """The documents as a data set of theirs."""
    from datasets import Dataset

    columns = {"input_ids": [document.tolist() for document in case.documents]}
    columns["attention_mask"] = [[1] * len(document) for document in case.documents]
    return Dataset.from_dict({**columns, "length": [len(document) for document in case.documents]})


class Masking:
    """Their collator, without the lengths; loader processes get it pickled."""

    def __init__(self, case: Case) -> None:
        from transformers import DataCollatorForLanguageModeling

        self.make = DataCollatorForLanguageModeling(case.tokenizer, mlm_probability=MASKED)

    def __call__(self, rows: list[dict[str, Any]]) -> Any:
        """The padded batch with its labels."""
        return self.make([{k: v for k, v in row.items() if k != "length"} for row in rows])


def loader(case: Case) -> DataLoader[Any]:
    """Shuffled batches of theirs."""
    torch.manual_seed(case.seed)
    return DataLoader(
        dataset(case), batch_size=case.batch, shuffle=True, collate_fn=Masking(case), drop_last=True
    )


def held_out_loss(case: Case, model: Any, documents: list[np.ndarray], objective: Any) -> float:
    """Nats per masked token of held-out documents, masked the same for everybody."""
    from tiryns.runner.order.keyed import sample_keys

    model.eval()
    model.set_attn_implementation("sdpa")  # ours reads packed rows else
    total, weight = 0.0, 0.0
    for start in range(0, len(documents), 32):
        some = documents[start : start + 32]
        numbers = np.arange(start, start + len(some))
        batch = objective(
            {
                "input_ids": np.concatenate(some),
                "lengths": np.array([len(text) for text in some], np.int32),
                "keys": sample_keys(0, np.zeros(len(some), np.int64), numbers, 9),
            }
        )
        with torch.no_grad():
            logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        total += float(
            functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum")
        )
        weight += batch["weight"]
    return total / weight
