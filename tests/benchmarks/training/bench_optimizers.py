"""Every optimizer, and every 8-bit variant, on the same tiny encoder, text, masks and steps, at its own defaults.

All take their steps in turn, so that the machine's mood is the same for each. Printed: loss on held-out text before
and after, the median time of a step relative to AdamW's, and bytes of state per parameter.
"""

import argparse
import statistics
import time
from dataclasses import dataclass, field

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch.optim import Optimizer
from transformers import BertConfig, BertForMaskedLM

from tests.optim.tiny import state_bytes
from tiryns.runner.data.demo.stdlib_text import StdlibText
from tiryns.runner.optim import LoopNeeds, ThreePhaseScheduler, get_optimizer, get_scheduler, loop_needs
from tiryns.runner.optim.table import OPTIMIZERS, with_8_bit_variant

VOCABULARY, LENGTH, ROWS = 1024, 32, 16
MASK = 1
Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass
class Run:
    """One optimizer with a model of its own."""

    name: str
    model: BertForMaskedLM
    optimizer: Optimizer
    scheduler: ThreePhaseScheduler
    needs: LoopNeeds
    start: float = 0.0
    seconds: list[float] = field(default_factory=list)

    def step(self, number: int, batch: Batch) -> None:
        """One training step."""
        began = time.perf_counter()
        ids, targets = batch
        with self.needs.step(number):
            self.model(ids, labels=targets).loss.backward(create_graph=self.needs.create_graph)
            self.needs.after_backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.scheduler.step()
        self.seconds.append(time.perf_counter() - began)

    @torch.no_grad()
    def validate(self, batches: list[Batch]) -> float:
        """Mean loss with the weights that are evaluated."""
        with self.needs.evaluation():
            return statistics.fmean(self.model(ids, labels=targets).loss.item() for ids, targets in batches)


def text_rows() -> torch.Tensor:
    """The standard library's documentation as rows of LENGTH tokens."""
    documents = list(StdlibText().documents())
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=["[UNK]", "[MASK]"], show_progress=False
    )
    tokenizer.train_from_iterator(documents, trainer)
    ids = torch.tensor([token for encoded in tokenizer.encode_batch(documents) for token in encoded.ids])
    rows = ids[: len(ids) // LENGTH * LENGTH].view(-1, LENGTH)
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]


def masked(rows: torch.Tensor, seed: int) -> Batch:
    """The rows with 30 % of the tokens masked, and the targets."""
    chosen = torch.rand(rows.shape, generator=torch.Generator().manual_seed(seed)) < 0.3
    return rows.masked_fill(chosen, MASK), rows.masked_fill(~chosen, -100)


def start(name: str, quantized: bool, steps: int) -> Run:
    """A run at its first step; all begin with the same weights."""
    torch.manual_seed(0)
    sizes = {
        "vocab_size": VOCABULARY, "max_position_embeddings": LENGTH, "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256,
    }  # fmt: skip
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertForMaskedLM(BertConfig(**sizes, **dropout))  # type: ignore[arg-type]
    optimizer = get_optimizer(name, model, {}, quantized)
    scheduler = get_scheduler(
        optimizer, warmup_steps=0.1, cooldown_kind="inverse_sqrt", cooldown_steps=0.2, max_steps=steps
    )
    return Run(f"{name} 8-bit" if quantized else name, model, optimizer, scheduler, loop_needs(optimizer))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--only", nargs="*", default=[*OPTIMIZERS])
    given = parser.parse_args()
    rows = text_rows()
    held_out = [masked(part, seed) for seed, part in enumerate(rows[: 8 * ROWS].split(ROWS))]
    quantizable = with_8_bit_variant()
    variants = [
        (name, quantized) for name in given.only for quantized in (False, True)[: 1 + (name in quantizable)]
    ]
    runs = [start(name, quantized, given.steps) for name, quantized in variants]
    for run in runs:
        run.start = run.validate(held_out)
    for step in range(given.steps):
        first = (8 + step) * ROWS % (len(rows) - ROWS)
        batch = masked(rows[first : first + ROWS], 1000 + step)
        for run in runs:
            run.step(step, batch)
    base = next((statistics.median(run.seconds) for run in runs if run.name == "adamw"), None)
    parameters = sum(p.numel() for p in runs[0].model.parameters())
    print(f"{given.steps} steps of {ROWS} x {LENGTH} tokens, {parameters:,} parameters\n")
    print(
        "| optimizer | lr | loss before | loss after | mean step, ms | median step / AdamW's | state bytes/parameter |"
    )
    print("|---|---|---|---|---|---|---|")
    for run in runs:
        median, mean = statistics.median(run.seconds), statistics.fmean(run.seconds[1:])
        relative = f"{median / base:.2f}" if base else ""
        size = state_bytes(run.optimizer) / parameters
        lr = max(group["initial_lr"] for group in run.optimizer.param_groups)
        print(
            f"| {run.name} | {lr:g} | {run.start:.2f} | {run.validate(held_out):.2f} | {1000 * mean:.0f} "
            f"| {relative} | {size:.2f} |"
        )


if __name__ == "__main__":
    main()
