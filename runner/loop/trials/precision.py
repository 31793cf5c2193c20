"""Which precision a CPU is faster in for the model of a run: timed once, and kept in the cache for later runs.

What a timing says depends on what else the machine does. So it is taken once for a processor, a number of threads, a
version of torch and a model, whichever run comes first; it has to be clear; and the jobs of a sweep take it over.
"""

import json
import time
from collections.abc import Sequence
from typing import Any

import torch
from omegaconf import DictConfig

from tiryns.runner import log
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.store.writer import cache_folder, key_of, locked
from tiryns.runner.loop.trials.steps import can_be_tried, largest_micro_batch, leaving_no_trace, loss_of
from tiryns.runner.models.autocast import is_slower, usable_precision
from tiryns.runner.models.packed.trials import in_one_line
from tiryns.runner.models.quick.allowed import quick_gradients
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.protocols import RunData
from tiryns.runner.run.cluster import num_nodes, processes_per_node
from tiryns.runner.run.environment import machine
from tiryns.runner.run.files import read_json, write_atomically

CLEARLY = 0.9
"""Share of the time of the precision that the rule names, below which the other is taken."""

ROUNDS = 4
"""Passes in each precision, of which the fastest counts; the first prepares kernels."""

SECONDS = 4.0
"""Time after which no further round begins."""

FLOPS = 1e12
"""Floating point operations of a pass, at most: a larger model is tried on fewer tokens."""

LEAST = 512
"""Tokens that are tried at least."""


def precision_of(config: DictConfig, data: RunData, module: Any) -> str:
    """What `trainer.precision=auto` comes to, from what the hardware suggests in `config.trainer`.

    fp32 for a model that cannot be computed in autocast. On a CPU with bf16 units the faster of the two: as the rule of
    `is_slower` has it, unless a timed step says clearly otherwise. Steps are not timed for a stream, for a model whose
    loss couples the batch, and on several nodes, whose caches may say different things.
    """
    trainer, model = config.trainer, module.model
    suggested = usable_precision(trainer.precision, model, data.layout)
    if trainer.accelerator != "cpu" or not suggested.endswith("-mixed"):
        return suggested
    by_rule = ["32-true", suggested]
    if not is_slower(getattr(model.pretrained.config.get_text_config(), "hidden_size", None)):
        by_rule.reverse()
    if not can_be_tried(data, module.model) or num_nodes(trainer) > 1:
        return by_rule[0]
    cache = config.data.get("cache_dir")
    try:
        return _kept(by_rule, data, module, processes_per_node(trainer), cache)
    except Exception as error:  # models raise what they like, and so do file systems
        log.info("precision is %s, not timed: %s", by_rule[0], in_one_line(error))
        return by_rule[0]


def faster(precisions: Sequence[str], seconds: dict[str, float]) -> str:
    """The first precision, or the second where it is clearly faster.

    Example:
        >>> faster(["bf16-mixed", "32-true"], {"bf16-mixed": 1.0, "32-true": 0.95})
        'bf16-mixed'
        >>> faster(["bf16-mixed", "32-true"], {"bf16-mixed": 1.0, "32-true": 0.85})
        '32-true'
    """
    first, second = precisions
    return second if seconds[second] < CLEARLY * seconds[first] else first


def _kept(precisions: list[str], data: RunData, module: Any, ranks: int, cache: str | None) -> str:
    """The faster precision, from the cache or timed; processes that ask at once wait for the first."""
    asked = {"precisions": precisions, **_setting(data, module.model)}
    path = cache_folder(cache) / "precision" / f"{key_of(asked)}.json"
    with locked(path):
        chosen = read_json(path, {}).get("chosen")
        if chosen not in precisions:
            seconds = _seconds(precisions, data, module, ranks)
            chosen = faster(precisions, seconds)
            told = ", ".join(f"{1000 * value:.1f} ms in {name}" for name, value in seconds.items())
            log.info("precision is %s: %s (kept in %s)", chosen, told, path)
            write_atomically(path, json.dumps({**asked, "seconds": seconds, "chosen": chosen}, indent=1))
    return str(chosen)


def _setting(data: RunData, model: TaskModel) -> dict[str, object]:
    here = machine()
    return {
        **{name: here[name] for name in ("cpu", "features")},
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "model": [type(model).__name__, type(model.pretrained).__name__],
        "shapes": key_of({"parameters": [list(p.shape) for p in model.parameters()]}),
        **{name: getattr(data, name) for name in ("layout", "micro_batch_tokens", "micro_batch_size")},
    }


def _seconds(precisions: Sequence[str], data: RunData, module: Any, ranks: int) -> dict[str, float]:
    """Seconds of both passes of a micro-batch of the first step in each precision, which are run in turn."""
    cpu, found = torch.device("cpu"), dict.fromkeys(precisions, float("inf"))
    with leaving_no_trace(module, cpu):
        micro_batch, began = _tried(data, module.model, ranks), time.perf_counter()
        for _ in range(ROUNDS):
            for precision in precisions:
                started = time.perf_counter()
                with (
                    quick_gradients(once=True, directly=True),
                    loss_of(module.model, micro_batch, cpu, precision) as loss,
                ):
                    loss.backward()
                found[precision] = min(found[precision], time.perf_counter() - started)
                module.zero_grad(set_to_none=True)
            if time.perf_counter() - began > SECONDS:
                break
    return found


def _tried(data: RunData, model: TaskModel, ranks: int) -> MicroBatch:
    """The largest micro-batch of the first step, of fewer tokens for a large model."""
    tokens = data.micro_batch_tokens
    if tokens is not None:
        fitting = FLOPS / (6 * sum(p.numel() for p in model.parameters()))
        tokens = min(tokens, max(LEAST, int(fitting)))
    return largest_micro_batch(data, tokens, ranks)
