"""Does enhanced decoding make better sentence embeddings than plain masked language modelling of the same budget?

Both pretrain the same small encoder on the same text, enhanced decoding once from the first token's hidden state and
once from the mean of all. Then a linear probe (multinomial logistic regression) learns to tell the classes of labelled
sentences from frozen embeddings of either kind. Plain modelling runs twice: for as many steps, and for as much processor
time. The data are your own:

`python -m tests.benchmarks.embedding.bench_sentence_probe --text 'books/*.txt' --labelled banking77`, the latter a
folder with `train.csv` and `valid.csv` of the columns text and label.
"""

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

DECAYS = (1e-4, 1e-3, 1e-2)
"""Weight decays of the probe, chosen on a tenth of the training sentences."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", help="file, folder or glob to pretrain on")
    parser.add_argument("--labelled", help="folder with train.csv and valid.csv")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("overrides", nargs="*", help="further settings of the runs, such as model=bert_mini")
    arguments = parser.parse_args()
    if not (arguments.text and arguments.labelled):
        print("skipped: needs --text and --labelled, data of your own")
        return
    sentences = {split: read(Path(arguments.labelled) / f"{split}.csv") for split in ("train", "valid")}
    print(
        "| pretraining | steps | CPU seconds | probe, first token | probe, mean |\n|---|---|---|---|---|",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:

        def row(name: str, objective: str, steps: int, *more: str) -> float:
            settings = [*arguments.overrides, *more, f"outputs={folder}/{name.replace(' ', '-')}"]
            seconds, model = pretrain(objective, steps, arguments.text, settings, folder)
            by_pooling = [f"{probe(model, sentences, pooling):.3f}" for pooling in ("cls", "mean")]
            print(f"| {name} | {steps} | {seconds:.0f} | " + " | ".join(by_pooling) + " |", flush=True)
            return seconds

        row("none", "mlm", 1)
        ours = row("enhanced_mlm by first token", "enhanced_mlm", arguments.steps)
        row("enhanced_mlm by mean", "enhanced_mlm", arguments.steps, "objective.pooling=mean")
        plain = row("mlm as many steps", "mlm", arguments.steps)
        row("mlm as much time", "mlm", round(arguments.steps * ours / plain))


def pretrain(objective: str, steps: int, text: str, overrides: list[str], folder: str) -> tuple[float, Path]:
    """Processor seconds of a run, and the folder of its model."""
    settings = [
        f"objective={objective}", f"trainer.max_steps={steps}", "data=files", f"data.source={Path(text).absolute()}",
        "data.vocab_size=4096", "data.num_workers=0", "sampler.global_batch_size=64", "model=modernbert_tiny",
        "optimizer=muon", "trainer=cpu", "trainer.validate_every=0", *overrides,
    ]  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    environment = {**os.environ, "TIRYNS_CACHE": f"{folder}/cache"}
    command = [sys.executable, "-m", "runner.train", *settings]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    outputs = Path(settings[-1].removeprefix("outputs="))
    return seconds, next(outputs.glob("*/*/model"))


def read(path: Path) -> tuple[list[str], list[str]]:
    """Texts and labels."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def probe(model: Path, sentences: dict[str, Any], pooling: str) -> float:
    """Accuracy of a linear probe on the validation sentences."""
    names = sorted(set(sentences["train"][1]))
    labels = {s: torch.tensor([names.index(name) for name in sentences[s][1]]) for s in sentences}
    vectors = {s: embed(model, sentences[s][0], pooling) for s in sentences}
    mean, spread = vectors["train"].mean(0), vectors["train"].std(0) + 1e-6
    x, y = (vectors["train"] - mean) / spread, labels["train"]
    mixed = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    held, rest = mixed[: len(y) // 10], mixed[len(y) // 10 :]

    def accuracy(decay: float, rows: Tensor, x_test: Tensor, y_test: Tensor) -> float:
        weights = fit(x[rows], y[rows], len(names), decay)
        return float(((x_test @ weights[:-1] + weights[-1]).argmax(-1) == y_test).double().mean())

    best = max(DECAYS, key=lambda decay: accuracy(decay, rest, x[held], y[held]))
    return accuracy(best, mixed, (vectors["valid"] - mean) / spread, labels["valid"])


@torch.no_grad()
def embed(folder: Path, texts: list[str], pooling: str) -> Tensor:
    """Sentence embeddings [B, H]: the first token's hidden state, or the mean over the tokens."""
    from transformers import AutoModel, AutoTokenizer, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    rows = []
    for start in range(0, len(texts), 256):
        batch = tokenizer(
            texts[start : start + 256], padding=True, truncation=True, max_length=128, return_tensors="pt"
        )
        hidden = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])[0]
        share = batch["attention_mask"] / batch["attention_mask"].sum(-1, keepdim=True)
        rows.append(hidden[:, 0] if pooling == "cls" else (hidden * share[..., None]).sum(1))
    return torch.cat(rows)


def fit(x: Tensor, y: Tensor, num_classes: int, decay: float) -> Tensor:
    """Weights [H + 1, classes] of a logistic regression, the bias last."""
    weights = torch.zeros(x.shape[1] + 1, num_classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=150, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = (
            functional.cross_entropy(x @ weights[:-1] + weights[-1], y) + decay * weights[:-1].square().sum()
        )
        value.backward()
        return value

    optimizer.step(loss)
    return weights.detach()


if __name__ == "__main__":
    main()
