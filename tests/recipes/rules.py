"""The rules of the speedrun (docs/speedrun.md), as far as a manifest tells whether a run keeps them."""

from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf

from tiryns.conf.data.pretraining import StdlibText
from tiryns.runner.cli.compose import compose, initialize

Manifest = dict[str, Any]

FREE = {
    "length_warmup_from", "length_warmup_steps", "cache_dir", "num_workers", "micro_batch_tokens",
    "micro_batch_size",
}  # fmt: skip
"""Settings of the data by which no document is read, held out, cut or tokenised otherwise in validation."""

SAME = {
    "data": {field for field in StdlibText.__dataclass_fields__ if field not in FREE | {"layout"}},
    "objective": {"_target_", "validation_mlm_probability"},
    "trainer": {"validation_batches"},
}
"""Settings that are those of the default recipe."""


def config_of(*words: str) -> dict[str, Any]:
    """The resolved config of a command, by group; without words that of the default recipe."""
    with initialize():
        config = compose([*words])
    groups = ("data", "objective", "sampler", "model", "module", "optimizer", "scheduler", "trainer")
    return {group: OmegaConf.to_container(config[group], resolve=True) for group in groups}


def broken_rules(manifest: Manifest, default: dict[str, Any]) -> list[str]:
    """What a run has otherwise than the rules say; `default` is the default recipe's config."""
    return [
        *_evaluated_otherwise(manifest, default),
        *_trained_otherwise(manifest),
        *_run_otherwise(manifest),
    ]


def _evaluated_otherwise(manifest: Manifest, default: dict[str, Any]) -> Iterator[str]:
    config = manifest["config"]["resolved"]
    for group, names in SAME.items():
        for name in sorted(names & {*config[group]}):  # a setting that came later has no value there
            if config[group][name] != default[group].get(name):
                yield f"{group}.{name} is not that of the default recipe"


def _trained_otherwise(manifest: Manifest) -> Iterator[str]:
    config = manifest["config"]["resolved"]
    if {"weights", "checkpoint"} & {*manifest["inputs"]} or config["model"].get("name_or_path"):
        yield "it begins with weights of another run"
    if config["trainer"]["max_steps"] < 1:
        yield "trainer.max_steps is not a fixed number of steps"
    if manifest["totals"]["steps"] != config["trainer"]["max_steps"]:
        yield "it has not ended with its last step"
    if config.get("allowed_targets") or config.get("imports") or manifest["code"].get("own"):
        yield "it runs code that is not the program's"


def _run_otherwise(manifest: Manifest) -> Iterator[str]:
    resolved = manifest["resolved"]
    if (resolved["accelerator"], resolved["processes"], resolved["threads"]) != ("cpu", 1, 1):
        yield "it is not one process on the CPU with one thread"
    if manifest["config"]["resolved"]["data"]["num_workers"]:
        yield "a loader process works for it, whose time is not counted"
    if manifest["interruptions"]:
        yield "it was interrupted"
