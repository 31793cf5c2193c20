"""CPU seconds of a new process: how far the program gets, and scripts that train an equal model otherwise."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[3]
FIRST_STEP = ["trainer=cpu", "trainer.max_steps=1", "trainer.validate_every=0", "data.num_workers=0"]
TWO_RANKS = ["trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu", *FIRST_STEP[1:]]
IMPORTS = "import torch, lightning.pytorch, transformers, datasets"
CLASSES = ["experiment=classification", *FIRST_STEP]

MARK = """
import os, sys

def mark(name):
    print("MARK", name, sum(os.times()[:4]), file=sys.stderr)
"""
"""Says how many CPU seconds a process and those it has started took so far."""

OURS = (
    MARK
    + """
from tiryns.runner import train
from tiryns.runner.cli.commands import main

def marked(name, function):
    def call(*args):
        mark(name)
        return function(*args)
    return call

def watchers(*args):
    mark("built")
    from lightning.pytorch import Callback
    class FirstStep(Callback):
        def on_train_batch_end(self, *args):
            mark("first step")
    return [*before(*args), FirstStep()]

before, train.watchers = train.watchers, watchers
train.work = marked("composed", train.work)
train.keep_freed_memory = marked("imported", train.keep_freed_memory)
main(sys.argv[1:])
"""
)
"""A run of the program that marks how far it is."""

MODEL = """
from transformers import ModernBertConfig, ModernBertForMaskedLM
model = ModernBertForMaskedLM(ModernBertConfig(
    vocab_size=4096, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256,
    pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3))
ids = torch.randint(5, 4096, (8, 128))
batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}
mark("built")
"""
"""The default run's model and 1,024 tokens."""

LOOP = (
    MARK
    + """
import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM
mark("imported")
"""
    + MODEL
    + """
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model(**batch).loss.backward()
optimizer.step()
mark("first step")
"""
)

LIGHTNING = (
    MARK
    + """
import torch
import lightning.pytorch as L
from transformers import ModernBertConfig, ModernBertForMaskedLM
mark("imported")
"""
    + MODEL
    + """
class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = model
    def training_step(self, batch):
        return self.model(**batch).loss
    def on_train_batch_end(self, *args):
        mark("first step")
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader([batch], batch_size=None)
trainer = L.Trainer(
    accelerator="cpu", max_steps=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Module(), loader)
"""
)

HF_TRAINER = (
    MARK
    + """
import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM, Trainer, TrainerCallback, TrainingArguments
mark("imported")
"""
    + MODEL
    + """
class FirstStep(TrainerCallback):
    def on_step_end(self, *args, **more):
        mark("first step")
rows = [{name: values[row] for name, values in batch.items()} for row in range(len(ids))]
settings = TrainingArguments(
    "out", max_steps=1, per_device_train_batch_size=len(rows), use_cpu=True, report_to=[], save_strategy="no")
Trainer(model, settings, train_dataset=rows, callbacks=[FirstStep()]).train()
"""
)

STAGES = ("composed", "imported", "built", "first step", "ended")


def program(*words: str) -> list[str]:
    """A command of the program."""
    return [sys.executable, "-c", "from tiryns.runner.cli.commands import main; main()", *words]


def measure(command: list[str], folder: str) -> dict[str, float]:
    """CPU seconds of a command until it is at each of its stages, and until it `ended`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    marks = [
        line.split(" ", 1)[1].rsplit(" ", 1) for line in done.stderr.splitlines() if line.startswith("MARK ")
    ]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**{name: float(seconds) for name, seconds in marks}, "ended": cpu}


def medians(commands: dict[str, list[str]], folder: str, repeats: int) -> dict[str, dict[str, float]]:
    """The medians of each command's figures; the commands take turns, after one round that fills the caches."""
    rounds = [
        {name: measure(command, folder) for name, command in commands.items()} for _ in range(repeats + 1)
    ][1:]
    return {
        name: {stage: statistics.median(one[name][stage] for one in rounds) for stage in rounds[0][name]}
        for name in commands
    }


def main(repeats: int = 5) -> None:
    trained = {
        "tiryns": [sys.executable, "-c", OURS, *FIRST_STEP],
        "tiryns experiment=classification": [sys.executable, "-c", OURS, *CLASSES],
        "script with Lightning and transformers": [sys.executable, "-c", LIGHTNING],
        "script with torch and transformers": [sys.executable, "-c", LOOP],
    }
    if find_spec("accelerate"):
        trained["script with transformers' Trainer"] = [sys.executable, "-c", HF_TRAINER]
    with tempfile.TemporaryDirectory() as folder:
        stages = medians(trained, folder, repeats)
        run = next(str(path.parent) for path in Path(folder).glob("outputs/*/*/model"))
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"], "tiryns --help": program("--help"),
            "tiryns info": program("info"), "tiryns runs": program("runs"),
            "tiryns runs show RUN": program("runs", "show", run), "tiryns --cfg job": program("--cfg", "job"),
            "tiryns --info optimizer=lion": program("--info", "optimizer=lion"),
            "the libraries' imports alone": [sys.executable, "-c", IMPORTS],
            "tiryns plan": program("plan", *FIRST_STEP[:1]),
            "tiryns predict RUN TEXT": program("predict", run, "the [MASK] of a list"),
            "tiryns trainer=ddp trainer.devices=2, one step": program(*TWO_RANKS),
        }  # fmt: skip
        whole = medians(commands, folder, repeats)
    print(f"| CPU seconds until | {' | '.join(STAGES)} |\n|---{'|---' * len(STAGES)}|")
    for name, figures in stages.items():
        print(f"| {name} | {' | '.join(f'{figures[one]:.2f}' if one in figures else '' for one in STAGES)} |")
    print("\n| command | CPU seconds |\n|---|---|")
    for name, figures in whole.items():
        print(f"| {name} | {figures['ended']:.2f} |")
