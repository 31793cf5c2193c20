"""The root config: one field per group, and the few settings that belong to the whole run."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING, DictConfig

from tiryns.conf.module import RECOMMENDED_COMPILE
from tiryns.conf.registry import store
from tiryns.conf.trainer import BUDGETS
from tiryns.conf.values import PAIRS, Choice, Named, setting

DEFAULTS: list[Any] = [
    {"data": "stdlib_text"}, {"objective": "mlm"}, {"sampler": "shuffled"}, {"model": "modernbert_tiny"},
    {"module": "pretraining"}, {"optimizer": "adamw"}, {"scheduler": "wsd"}, {"trainer": "auto"},
    {"checkpoint": "default"}, {"callback": "default"}, {"logger": "csv"}, "_self_", {"experiment": None},
    {"scale": None}, "${scaled:}", {"override hydra/sweeper": "grid"},
]  # fmt: skip

UNSCALED = "unscaled"
"""Name of an empty config, which `scaled` returns if no `scale` is chosen."""

LATER: dict[str, dict[str, Any]] = {
    "data": {
        "header": None, "label_columns": None, "on_bad_row": "error", "choices_column": "choices", "choice_columns": None,
        "tag_columns": None, "without": None, "substitute": False,
    },
    "objective": {
        "masking": "tokens", "encoder_masking": "tokens", "max_span": 3, "mask_share": 0.8, "random_share": None,
        "fixed_count": False, "favour": None,
        "class_weights": None, "label_smoothing": 0.0, "focal_gamma": 0.0, "r_drop": 0.0, "thresholds": None,
        "teacher": None, "teacher_weight": 0.5, "label_weight": 0.5, "teacher_temperature": 2.0,
        "cache_teacher": False, "top_k": None, "hidden_weight": 0.0, "hidden_layers": "last",
    },
    "module": {"neftune_alpha": 0.0, "freeze_layers": None, "cuda_graphs": False},
    "optimizer": {"parametrization": "standard", "base_width": 128},
    "scheduler": {"warmup_tokens": None, "cooldown_tokens": None},
    "checkpoint": {"monitor": None, "mode": None},
    "callback": {"monitor": "${checkpoint.monitor}", "mode": "${checkpoint.mode}", "patience": 3, "min_delta": 0.0},
    "model": {
        "adapter": None, "adapter_rank": 8, "adapter_alpha": 8.0, "adapter_dropout": 0.0, "adapter_targets": None,
        "adapter_export": "merged", "text_from": None, "vision_from": None,
    },
    "trainer": {
        **dict.fromkeys((*BUDGETS, "max_seconds")), "matmul_precision": "highest", "recommends": {},
        "fsdp_replicas": 1, "fsdp_reshard": True, "fsdp_prefetch": 0, "fsdp_param_dtype": "float32",
    },
}  # fmt: skip
"""Settings that later versions added to the hash of a config, with their defaults: at its default none counts."""

FORMER: dict[str, dict[str, dict[Any, Any]]] = {
    "module": {"compile_model": {RECOMMENDED_COMPILE: False, "auto": False}}
}
"""Newer values of settings, each with the older value that gives the same run; a config's hash uses the older value."""


def as_before(group: str, values: dict[str, Any]) -> dict[str, Any]:
    """Returns a group's settings for a config's hash: leaves out the defaults in `LATER`, replaces values by `FORMER`.

    Example:
        >>> as_before("module", {"neftune_alpha": 0.0, "compile_model": "auto", "load_best": True})
        {'compile_model': False, 'load_best': True}
    """
    later, former = LATER.get(group, {}), FORMER.get(group, {})
    settings = {n: value for n, value in values.items() if n not in later or value != later[n]}
    return {n: former[n].get(value, value) if n in former else value for n, value in settings.items()}


HELP = """tiryns [train] GROUP=OPTION ... FIELD=VALUE ...    pretrains or finetunes; alone, the default run

  tiryns model=bert_tiny optimizer=muon                 another model and another optimizer
  tiryns experiment=classification data=classification data.train=reviews.csv
                                                        a recipe, on a file of yours
  tiryns -m optimizer.lr=1e-3,3e-3 seed=1,2             a sweep: four runs, and a page that compares them

Groups, whose options and fields `tiryns info` and `tiryns info GROUP` list:
  experiment, scale    whole recipes, and a small size of each
  data, objective      the data set, and the targets and the loss
  sampler, model       which samples make up a global batch, and the network
  module, optimizer    the training step, and the update rule
  scheduler, trainer   the learning rate over the steps; devices, precision and length
  checkpoint, logger   what is kept, and where metrics go
  callback, suite      further actions during training; tasks that models are measured on

`tiryns info` also lists the settings of the whole run, such as `seed` and `phases`. `seeds=5` or `folds=5` trains five
runs and summarises them as one. `resume=RUN` resumes a run, `resume=auto` the newest run of the same config.
`tiryns plan` with the same arguments shows what a run would do. `+FIELD=VALUE` adds a new field, `~FIELD` removes one.

Flags:
  -m, --multirun         every combination of the values that commas separate, as one sweep
  -cd, --config-dir DIR  a folder of recipes and options of yours
  --cfg job [--resolve]  prints the config, and trains nothing
  --info [defaults]      where each part of the config comes from
  -sc, --shell-completion install=bash    completion of every word (`eval "$$(tiryns -sc install=bash)"`)
  --hydra-help           all flags of Hydra
"""
"""What `tiryns train --help` prints."""


HYDRA: dict[str, Any] = {
    "run": {"dir": "${run_folder:}"},
    "sweep": {"dir": "${sweep_folder:}", "subdir": "${hydra.job.num}"},
    "callbacks": {
        "checks": {"_target_": "tiryns.runner.config.EarlyChecks"},
        "sweep_page": {"_target_": "tiryns.runner.sweeps.SweepPage"},
    },
    "output_subdir": None,
    "job": {"chdir": False},
    "help": {"app_name": "tiryns", "template": HELP},
    "job_logging": {"formatters": {"simple": {"format": "%(message)s"}}},
}


OF_PROBES = ("mode", "pooling")
"""Settings that count for a probe only: training does not depend on them."""


@dataclass
class Config:
    """The config of a run: two runs of equal config give equal weights."""

    defaults: list[Any] = setting(DEFAULTS)
    """The default option of each group."""
    data: Any = MISSING
    """The data set, its tokenization and its micro-batches."""
    objective: Any = MISSING
    """The collator that makes targets, and the loss."""
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
    checkpoint: Any = MISSING
    """When to save, what to keep."""
    callback: Any = setting(MISSING, execution=True)
    """Callbacks of the trainer, such as progress bar and throughput."""
    logger: Any = setting(MISSING, execution=True)
    """Where metrics go; several with `logger=[csv,wandb]`."""
    mode: str = setting("train", allowed=Choice(("train", "inspect", "evaluate", "probe")), execution=True)
    """`train`; `inspect` (`tiryns plan`) shows what a run would do; `evaluate` (`tiryns evaluate`) measures the finished
    run that `resume` names on `data.test`, or on `data.validation` if it was trained on text; `probe` measures the frozen
    features of `model` on `data`."""
    pooling: str | None = setting(None, allowed=Choice(("mean", "cls", "max")), execution=True)
    """With `mode=probe`, the features of a text: the `mean` or `max` of its tokens' hidden states, or the first state
    (`cls`). None: pooling, prompts and normalisation of the model's folder of sentence-transformers, else the mean."""
    seed: int = 42
    """Seed of every random choice of the run."""
    skip_batches: list[Any] = setting([], allowed=PAIRS)
    """Global batches to leave out: pairs [first, last], counted from 1 as in `order.txt`, both included. Step k trains on
    the k-th remaining batch. The number of steps does not change."""
    phases: list[Any] = setting([])
    """Parts of the run with settings of their own, one after the other. Each has a `name`, a length (`steps`, `tokens`
    or a `share` of the run), and the settings in which it differs from the run, by group (`conf/phases.py`):
    `{name: decay, share: 0.1, data: {max_length: 512}, optimizer: {lr: 3e-4}}`."""
    resume: str | None = setting(None, allowed=Named("a folder, or auto"), execution=True)
    """Folder of a run or a sweep to resume, or `auto`: the newest run of this config (with `-m` the newest
    sweep of these overrides), else a new one."""
    resume_changed_data: bool = setting(False, execution=True)
    """Resumes a run although its data, sampler or batch size differ from the checkpoint's."""
    outputs: str = setting("outputs", allowed=Named("a folder"), execution=True)
    """Folder of the run folders, relative to the working directory."""
    allowed_targets: list[str] = setting([], execution=True, runs_code=True)
    """Your own packages, or single names in other packages, that `_target_` may name besides the registered options."""
    imports: list[str] = setting([], execution=True, runs_code=True)
    """Your own modules to import first. They may register tasks and metrics, and `_target_` may name what they define."""
    trust_remote_code: bool = setting(False, execution=True, runs_code=True)
    """Allows a model, tokenizer or processor to run the code that comes with it (`auto_map`)."""
    allowed_addresses: list[str] = setting([], execution=True, runs_code=True)
    """Prefixes of addresses, such as `s3://my-bucket`, that recipes, suites, resumed runs and data sets may fetch."""
    hydra: Any = setting(HYDRA, execution=True)
    """Hydra's own settings; see `--hydra-help`."""


def scaled(*, _root_: DictConfig) -> str:
    """Returns the name of the config that scales the chosen recipe; raises ValueError for a `scale` without a recipe.

    `scale/NAME.yaml` has the settings that all recipes of a scale share; `experiment/NAME/RECIPE.yaml` has the changes of
    one recipe. Both only set fields: the recipe chooses the options of the groups.

    Example:
        >>> scaled(_root_=DictConfig({"scale": "toy", "experiment": "modernbert"}))
        'experiment/toy/modernbert'
    """
    scale, recipe = (_root_.get(group) for group in ("scale", "experiment"))
    if scale is None:
        return UNSCALED
    if not isinstance(recipe, str):
        problem = f"scale={scale} makes a recipe another size: name one, such as experiment=modernbert"
        raise ValueError(problem)
    return f"experiment/{scale}/{recipe}"


store(None, UNSCALED, {})
store(None, "config", Config)
