"""The root config: one field per group, and the few settings that belong to the whole run."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from iolaus.conf.registry import register_root
from iolaus.conf.values import Choice, Named, setting

DEFAULTS: list[Any] = [
    {"data": "stdlib_text"},
    {"objective": "mlm"},
    {"sampler": "shuffled"},
    {"model": "modernbert_tiny"},
    {"module": "pretraining"},
    {"optimizer": "adamw"},
    {"scheduler": "wsd"},
    {"trainer": "auto"},
    {"checkpoint": "default"},
    {"callback": "default"},
    {"logger": "csv"},
    "_self_",
    {"experiment": None},
    {"override hydra/sweeper": "grid"},
]

HYDRA: dict[str, Any] = {
    "run": {"dir": "${run_folder:}"},
    "sweep": {"dir": "${sweep_folder:}", "subdir": "${hydra.job.num}"},
    "callbacks": {
        "checks": {"_target_": "iolaus.runner.config.EarlyChecks"},
        "sweep_page": {"_target_": "iolaus.runner.sweeps.SweepPage"},
    },
    "output_subdir": None,
    "job": {"chdir": False},
    "help": {
        "app_name": "iolaus",
        "header": "iolaus [train] GROUP=OPTION ... FIELD=VALUE ...   pretrain or finetune; alone, the default run.",
    },
    "job_logging": {"formatters": {"simple": {"format": "%(message)s"}}},
}


@dataclass
class Config:
    """A run, whole: two runs of equal config give equal weights."""

    defaults: list[Any] = field(default_factory=lambda: list(DEFAULTS))
    """Which option of each group is taken where the command line names none."""
    data: Any = MISSING
    """Where the samples come from, how they are tokenised and cut into micro-batches."""
    objective: Any = MISSING
    """What is learnt: the collator that makes targets, and the loss."""
    sampler: Any = MISSING
    """Which samples make up global batch k."""
    model: Any = MISSING
    """The network, from a config class of transformers or from saved weights."""
    module: Any = MISSING
    """The LightningModule: the training step and evaluation."""
    optimizer: Any = MISSING
    """The update rule and its parameter groups."""
    scheduler: Any = MISSING
    """The learning rate over the steps: warm-up, training, cool-down."""
    trainer: Any = MISSING
    """Devices, precision, and how long to train."""
    checkpoint: Any = setting(MISSING, execution=True)
    """When to save, what to keep."""
    callback: Any = setting(MISSING, execution=True)
    """What watches the run: progress bar, throughput."""
    logger: Any = setting(MISSING, execution=True)
    """Where metrics go; several with `logger=[csv,wandb]`."""
    mode: str = setting("train", allowed=Choice(("train", "inspect")), execution=True)
    """`train`, or `inspect`: what `iolaus plan` does, which shows what a run would do and trains nothing."""
    seed: int = 42
    """Every random choice of the run follows from it."""
    resume: str | None = setting(None, allowed=Named("a folder, or auto"), execution=True)
    """The folder of a run or a sweep to continue, or `auto`: the newest unfinished run of this very config (with `-m`
    the newest sweep of these very overrides), else a new one."""
    resume_changed_data: bool = setting(False, execution=True)
    """Lets a run go on although its data, sampler or batch size are not those of the checkpoint."""
    outputs: str = setting("outputs", allowed=Named("a folder"), execution=True)
    """The folder that run folders are made in, relative to where the command is typed."""
    allowed_targets: list[str] = setting(factory=list, execution=True, runs_code=True)
    """Packages of your own, or single names of others, that `_target_` may name beside the registered options."""
    imports: list[str] = setting(factory=list, execution=True, runs_code=True)
    """Modules of your own that are imported first: they may register tasks and metrics, and `_target_` may name what is
    in them."""
    trust_remote_code: bool = setting(False, execution=True, runs_code=True)
    """Lets a model, tokenizer or processor run code that its author put beside it (`auto_map`); else it is refused."""
    hydra: Any = setting(factory=lambda: dict(HYDRA), execution=True)
    """Hydra's own settings; see `--hydra-help`."""


register_root(Config)
