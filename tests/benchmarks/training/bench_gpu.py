"""Pretraining on one GPU against Hugging Face's Trainer: tokens per second, MFU, memory, and the wait for data.

    python -m tests.benchmarks.training.bench_gpu [--text 'books/*.txt'] [--models bert_base] [--lengths 512]
        [--documents 64]

BERT-base and ModernBERT-base, a vocabulary of 50,368, bf16, documents cut at 512 and 1,024 tokens: those of the default
data, or paragraphs of text files. Each contender trains in a process of its own; seconds are those of the wall clock
behind a third of the steps. The Trainer attends by torch's own kernels, and by flash attention where that is installed.
FLOPs count real tokens alone, the same for everybody. Their Trainer needs `accelerate`.
"""

import argparse
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.benchmarks.fitting import alone
from tests.benchmarks.training.bench_end_to_end import Column, prepared, silence
from tests.benchmarks.training.peer_pretraining import MASKED, Case, hugging_face, ours
from tiryns.runner.models.flops import count_flops, peak_flops

VOCABULARY = 50368
OURS = {
    "Tiryns, packed": ["module.compile_model=false", "data.micro_batch_tokens=65536"],
    "Tiryns, packed and compiled": ["module.compile_model=true", "data.micro_batch_tokens=65536"],
    "Tiryns, packed, CUDA graphs": [
        "module.compile_model=true", "module.cuda_graphs=true", "data.micro_batch_tokens=16384",
    ],
}  # fmt: skip
"""The words of each of ours; rows for CUDA graphs are filled up, so they are smaller parts of a step."""
TRAINERS = {"Trainer, sdpa": "sdpa", "Trainer, flash attention": "flash_attention_2"}


class Figures(NamedTuple):
    """What is measured of a contender."""

    speed: float
    """Real tokens per second."""
    mfu: float | None
    memory: float
    """GiB at the most."""
    waiting: float
    """Share of the time in which the step waits for data."""


def main() -> None:
    """Prints a row for each contender, model and length."""
    parser = argparse.ArgumentParser(description="Pretraining on one GPU against Hugging Face's Trainer.")
    parser.add_argument("--text", help="a glob of text files, whose paragraphs are the documents")
    parser.add_argument("--models", nargs="*", default=["bert_base", "modernbert_base"])
    parser.add_argument("--lengths", nargs="*", type=int, default=[512, 1024])
    parser.add_argument("--documents", type=int, default=64, help="of a step")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--device", default="cuda", help="cpu tries the benchmark itself")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("needs a GPU")
        return
    if find_spec("accelerate") is None:
        print("needs `pip install accelerate`, for Hugging Face's Trainer")
        return
    print(
        "| model, longest document | contender | tokens/s | MFU | memory, GiB | waiting for data |\n"
        "|---|---|---|---|---|---|",
        flush=True,
    )
    for model in options.models:
        for length in options.lengths:
            for who in contenders(options.device):
                cells = row(alone(measure, who, model, length, options))
                print(f"| {model}, {length} | {who} | {cells} |", flush=True)


def contenders(device: str) -> list[str]:
    """Who trains on this machine."""
    without = [] if device == "cuda" and find_spec("flash_attn") else ["Trainer, flash attention"]
    return [*OURS, *(name for name in TRAINERS if name not in without)]


def row(figures: Figures) -> str:
    """The cells of a contender."""
    mfu = "" if figures.mfu is None else f"{figures.mfu:.1%}"
    return f"{figures.speed:,.0f} | {mfu} | {figures.memory:.1f} | {figures.waiting:.1%}"


def measure(who: str, model: str, length: int, options: Any) -> Figures:
    """The figures of a contender."""
    options.model = model
    on_gpu = options.device == "cuda"
    column = Column(VOCABULARY if on_gpu else 512, length, on_gpu, options.steps, 1, options.documents)
    further = [
        f"trainer.accelerator={'gpu' if on_gpu else 'cpu'}", "data.num_workers=4",
        f"model.max_position_embeddings={length}", *OURS.get(who, ["module.compile_model=false"]),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        case, _, _ = prepared(column, options, Path(folder), further=further)
        case = case._replace(device=options.device, workers=4)
        network = case.make_model()
        flops = count_flops(network)
        with silence():
            clock, _ = ours(case) if who in OURS else hugging_face(attending(case, TRAINERS[who]))
    lengths = [len(document) for document in case.documents]
    mean, pairs = sum(lengths) / len(lengths), sum(n * n for n in lengths) / len(lengths)
    per_token = flops.step(mean, pairs, MASKED * mean) / mean
    peak = peak_flops(torch.cuda.get_device_name(), "bf16-mixed") if on_gpu else None
    return Figures(
        speed=clock.speed,
        mfu=None if peak is None else per_token * clock.speed / peak,
        memory=torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0.0,
        waiting=clock.waited / clock.seconds,
    )


def attending(case: Case, attention: str) -> Case:
    """The same with a model that attends in this way."""

    def make_model() -> Any:
        network = case.make_model()
        network.set_attn_implementation(attention)
        return network

    return case._replace(make_model=make_model)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
