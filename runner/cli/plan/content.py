"""The parts of a plan: data, samples, lengths, parameter groups, learning rate and costs of a run."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from tiryns.conf.phases import Phase
from tiryns.runner.config.run_config import complete
from tiryns.runner.config.skipped import leave_out_rewinds
from tiryns.runner.data.micro_batch import Share
from tiryns.runner.launch.processes import quiet_threads
from tiryns.runner.launch.resume import named_run
from tiryns.runner.loop.assembly import Parts, assemble
from tiryns.runner.loop.budget import budget_of
from tiryns.runner.loop.phases import phases_in
from tiryns.runner.loop.token_ramps import take_over_lengths
from tiryns.runner.modules.samples import marked_texts
from tiryns.runner.optim.schedule.chain import timeline_of
from tiryns.runner.protocols import RunData
from tiryns.runner.run.cluster import num_nodes, processes_per_node
from tiryns.runner.run.lazy import many_imports

HISTOGRAM_LINES = 8
MOST_MEASURED = 200_000  # sequences of the histogram
ALONE = {"devices": 1, "num_nodes": 1, "strategy": "auto", "tensor_parallel_size": 1}
COLLATED = 8  # global batches, spread evenly over the run, that tell the tokens of a step

OWN = ("model", "optimizer", "scheduler")
"""Groups whose settings the plan shows if a phase changes them."""

Facts = dict[str, Any]


def plan_of(config: DictConfig) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a run's plan by name, each as soon as it is known; None for an unknown part."""
    quiet_threads()
    with many_imports():
        from tiryns.runner.data.module import GlobalBatchDataModule
        from tiryns.runner.loop.lightning_loop import is_plain
        from tiryns.runner.loop.resolved import of_branch
        from tiryns.runner.loop.trainer import quiet_libraries

    quiet_libraries()
    config, resolved_values = complete(config), {}
    budget = budget_of(config.trainer)
    if config.resume not in (None, "auto"):
        run = named_run(config.resume, to_train=False)
        leave_out_rewinds(config, run.path)
        resolved_values = dict(run.status.get("resolved") or {})
        points = [Path(config.resume)] if config.resume.endswith(".ckpt") else run.checkpoints()[-1:]
        for path in points:
            resolved_values = of_branch(resolved_values, path, config)
        take_over_lengths(config, resolved_values)
    ranks = processes_per_node(config.trainer) * num_nodes(config.trainer)
    parts = assemble(config, resolved_values)
    is_indexed = isinstance(parts.data, GlobalBatchDataModule) and not parts.data.streamed
    batches = parts.data.train_batches(0, ranks) if is_indexed else None
    yield "dataset", {"described": parts.data.describe(), **_data_facts(parts.data, config, is_indexed)}
    yield "phases", phase_rows(config, parts.data) if config.get("phases") else None
    shares: list[Share] = []
    if batches is not None:
        count = min(COLLATED, len(batches))
        shares = [batches[(2 * i + 1) * len(batches) // (2 * count)] for i in range(count)]
    yield "samples", _samples(parts.data, batches[0]) if batches else None
    yield "lengths", _lengths(parts.data) | _fill(shares, batches) if shares else None
    is_global = not is_plain(parts.data, parts.module)
    yield "optimization", _optimizer(parts) if is_global else None
    yield "model", {**parts.module.describe(), **parts.weights}
    yield "ranks", ranks
    yield "budget", str(budget) if budget else None
    yield "steps", parts.max_steps
    yield "epochs", parts.data.epoch_at(parts.max_steps) if is_indexed else None
    costs = _costs(config, parts, shares, ranks) if is_global and shares else {"memory": None, "time": None}
    yield from costs.items()


def phase_rows(config: DictConfig, data: RunData) -> list[Facts]:
    """Returns a row per phase; `config` has resolved lengths, and `data` is connected; token counts are estimates."""
    phases = phases_in(config)
    timeline, rows = timeline_of(phases), []
    for place, phase in enumerate(phases):
        draws = _phase_draws(data, phase, timeline.starts[place], timeline.ends[place])
        changes = {name: value for group in OWN for name, value in getattr(phase, group).items()}
        rate = {**config.objective, **phase.objective}
        first, last = rate.get("mlm_probability"), rate.get("final_mlm_probability")
        masking = None  # else at the beginning and the end of what it follows
        if first is not None and rate.get("causal_share") != 1:
            masking = [first, first if last is None else last]
        rows.append({"name": phase.name, "steps": phase.steps, **draws, "masking": masking, "own": changes})
    return rows


def _phase_draws(data: RunData, phase: Phase, start: int, end: int) -> Facts:
    """Returns a phase's tokens, sequence length, first and last batch size, and the share of tokens from each source."""
    order, stores = data.phased_order, data.stores
    if order is None:
        return {"tokens": None, "max_length": None, "batch": None, "shares": {}}
    names = [store.name for store in stores] or [""]
    sequences = [store.data.train for store in stores] or [data.train]
    tokens: dict[str, float] = dict.fromkeys(names, 0.0)
    for name, samples, count in zip(names, sequences, order.counts(end) - order.counts(start), strict=True):
        tokens[name] += int(count) * getattr(samples, "num_tokens", 0) / len(samples)
    total = sum(tokens.values())
    return {
        "tokens": round(total) or None,
        "max_length": data.length_of(phase),
        "batch": [order.samples_before(step + 1) - order.samples_before(step) for step in (start, end - 1)],
        "shares": {name: count / total for name, count in tokens.items() if name and count},
    }


def _optimizer(parts: Parts) -> Facts:
    from tiryns.runner.optim import groups_table
    from tiryns.runner.optim.schedule.plot import numbers

    schedule = getattr(parts.scheduler, "schedule", None)
    rate = max(float(group["initial_lr"]) for group in parts.optimizer.param_groups) if schedule else 0.0
    return {
        "groups": groups_table(parts.optimizer),
        "scheduler": type(parts.scheduler).__name__,
        "phases": schedule.describe() if schedule else None,
        "schedule": numbers(schedule, parts.max_steps, rate) if schedule else None,
    }


def _data_facts(data: Any, config: DictConfig, is_indexed: bool) -> Facts:
    sets = {"training": data.train, **data.validation} if is_indexed else {}
    hashes = {name: getattr(s, "fingerprint", None) for name, s in sets.items()}
    return {
        "sequences": {name: len(s) for name, s in sets.items()} if is_indexed else None,
        "fingerprints": {name: value for name, value in hashes.items() if value} if is_indexed else None,
        "sampler": data.sampler.fingerprint() if is_indexed else None,
        "cache": config.data.get("cache_dir") if is_indexed else None,
    }


def _samples(data: Any, share: Share) -> list[Facts]:
    ids = share["sample_ids"].tolist()
    texts = marked_texts(share["micro_batches"][0], data.tokenizer, data.collator)
    pairs = zip(ids, texts, strict=False)
    return [{"epoch": epoch, "index": index, "text": text} for (epoch, index), text in pairs]


def _lengths(data: RunData) -> Facts:
    """Returns the lengths of sequences in tokens, with their histogram."""
    step = max(1, len(data.train) // MOST_MEASURED)
    lengths = data.train.lengths(np.arange(0, len(data.train), step))
    width = -(-(int(np.ptp(lengths)) + 1) // HISTOGRAM_LINES)
    edges = np.arange(lengths.min(), lengths.max() + width + 1, width)
    counts, _ = np.histogram(lengths, bins=edges)
    ends = np.minimum(edges[1:] - 1, lengths.max())
    bars = zip(edges[:-1].tolist(), ends.tolist(), counts / len(lengths), strict=True)
    low, middle, high = np.percentile(lengths, [0, 50, 100]).tolist()
    return {
        "histogram": [{"from": start, "to": end, "share": share} for start, end, share in bars],
        "min": low, "median": middle, "max": high, "mean": float(lengths.mean()),
    }  # fmt: skip


def _fill(shares: Sequence[Share], batches: Any) -> Facts:
    """Returns the share of tokens that are not padding, whether rows are packed, and micro-batches per rank and step."""
    tokens, places = (sum(share[name] for share in shares) for name in ("tokens", "padded_tokens"))
    micro = sum(len(share["micro_batches"]) for share in shares) / len(shares)
    return {"fill": tokens / places, "packed": batches.packed, "micro_batches": micro}


def _costs(config: DictConfig, parts: Parts, shares: Sequence[Share], ranks: int) -> Facts:
    """Returns a rank's memory in bytes, and FLOPs and seconds of the run, from a trial of the step with the largest
    micro-batch, scaled to the mean step.
    """
    import torch

    from tiryns.runner.loop.resolved import choose_hardware
    from tiryns.runner.loop.trials import precision_of, try_step
    from tiryns.runner.models.flops import peak_flops, step_flops

    hardware_config = choose_hardware(config, {})
    accelerator, precision = hardware_config.trainer.accelerator, hardware_config.trainer.precision
    device = torch.device("cuda" if accelerator == "gpu" else accelerator)
    if config.trainer.get("precision", "auto") == "auto":
        precision = precision_of(hardware_config, parts.data, parts.module)
    share = max(shares, key=lambda share: share["micro_batches"][0]["input_ids"].numel())
    cost = try_step(parts.module, parts.optimizer, share, device, precision)
    usual = sum(each["tokens"] for each in shares) / len(shares) / share["tokens"]
    seconds = cost.step_seconds * usual
    model, counts = parts.module.model, parts.module.model.flop_counts()
    per_step = ranks * sum(step_flops(model, counts, share) for share in shares) / len(shares)
    shards = ranks if config.trainer.get("strategy") == "fsdp" else 1
    name = torch.cuda.get_device_name() if device.type == "cuda" else device.type
    peak = peak_flops(name, precision)
    memory = {part: getattr(cost, part) / shards for part in ("weights", "gradients", "optimizer")}
    together = (cost.memory - cost.activations) / shards + cost.activations
    return {
        "memory": {**memory, "activations": cost.activations, "together": together},
        "time": {
            "step_seconds": seconds,
            "seconds": parts.max_steps * seconds,
            "flops_per_step": per_step,
            "flops": per_step * parts.max_steps,
            "tokens_per_second": ranks * share["tokens"] / cost.step_seconds,
            "mfu": per_step / ranks / seconds / peak if peak else None,
            "precision": precision,
            "device": name,
        },
    }
