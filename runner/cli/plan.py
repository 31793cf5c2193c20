"""`iolaus plan`: shows data, samples, lengths, parameter groups, learning rate and costs of a run, and trains nothing."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from omegaconf import DictConfig

from iolaus.conf.registry import option_of
from iolaus.runner.config.completed import completed
from iolaus.runner.config.skipped import left_out, noted_rewinds
from iolaus.runner.launch.processes import quiet_threads
from iolaus.runner.launch.resume import named_run
from iolaus.runner.loop.assembly import Parts, assemble
from iolaus.runner.loop.budget import Budget, budget_of, settle, take_over
from iolaus.runner.modules.texts import marked_texts
from iolaus.runner.report.summary import clock, group_summary, show
from iolaus.runner.run.cluster import num_nodes, processes_per_node
from iolaus.runner.run.folder import RunFolder

HISTOGRAM_LINES = 8
BAR = 40  # characters of the longest bar
MOST_MEASURED = 200_000  # sequences of the histogram
ALONE = {"devices": 1, "num_nodes": 1, "strategy": "auto", "tensor_parallel_size": 1}
FILLED = 8  # global batches that are collated for the fill rate


def show_plan(config: DictConfig) -> None:
    """Prints the plan of a run; raises the errors of config and data that the run would raise."""
    quiet_threads()
    from iolaus.runner.data.module import GlobalBatchDataModule
    from iolaus.runner.loop.lightning_loop import describe, is_plain
    from iolaus.runner.loop.trainer import quiet_libraries

    quiet_libraries()
    asked, config = config, completed(config)
    budget = budget_of(config.trainer)
    if config.resume not in (None, "auto"):
        run = named_run(config.resume, to_train=False)
        config.skip_batches = left_out(config.skip_batches, noted_rewinds(run.path))
        take_over(config.trainer, run.status().get("resolved") or {})
    ranks = processes_per_node(config.trainer) * num_nodes(config.trainer)
    if (unknown := budget_of(config.trainer)) and unknown.name == "max_seconds":
        settle(config.trainer, _steps_in(unknown, asked, ranks))
    parts = assemble(config)
    indexed = isinstance(parts.data, GlobalBatchDataModule) and not parts.data.streamed
    batches = parts.data.train_batches(0, ranks) if indexed else None
    facts = _fingerprints(parts.data, config) if indexed else {"samples": "known only as they are read"}
    show("the plan", {"data": {**describe(parts.data), **facts}})
    if batches is not None:
        show("samples as the model gets them", {"samples": _samples(parts.data, batches[0])})
        show("lengths", {"tokens": _histogram(parts.data), "fill": _fill(batches)})
    own = not is_plain(parts.data, parts.module)
    optimizer = _show_optimizer(parts) if own else None
    costs = _costs(config, parts, optimizer, batches, ranks) if own and batches is not None else {}
    length = {"length": {"budget": f"{budget}, {config.trainer.max_steps:,} steps"}} if budget else {}
    show("what it takes", {"model": describe(parts.module), **length, **costs})
    print("nothing was trained; `iolaus train` with the same words trains", flush=True)


def _steps_in(budget: Budget, asked: DictConfig, ranks: int) -> int:
    """About the steps of a budget of seconds: a trial in this process alone, at the speed of as many ranks."""
    from iolaus.runner.loop.resolved import choose_hardware
    from iolaus.runner.loop.speed import steps_in

    alone = asked.copy()
    alone.trainer.update(ALONE if option_of("trainer", alone.trainer) else {"devices": 1, "num_nodes": 1})
    with TemporaryDirectory() as folder:
        return steps_in(budget, alone, choose_hardware(alone, {}), {}, RunFolder(Path(folder))) * ranks


def _show_optimizer(parts: Parts) -> Any:
    """Prints parameter groups and learning rate; returns the optimizer."""
    from iolaus.runner.optim import groups_table
    from iolaus.runner.optim.schedule.plot import drawn

    optimizer, scheduler = parts.optimizer, parts.scheduler
    schedule = getattr(scheduler, "schedule", None)
    group_summary(groups_table(optimizer), schedule.describe() if schedule else "")
    if schedule:
        rate = max(float(group["initial_lr"]) for group in optimizer.param_groups)
        print("learning rate", *drawn(schedule, parts.max_steps, rate), sep="\n", flush=True)
    else:
        print(f"learning rate: {type(scheduler).__name__} tells it only step by step", flush=True)
    return optimizer


def _fingerprints(data: Any, config: DictConfig) -> dict[str, str]:
    """Fingerprints of the data and the sampler, and the folder of the cache."""
    sets = {"training": data.train, **data.validation}
    found = {name: getattr(s, "fingerprint", None) for name, s in sets.items()}
    facts = {"fingerprints": ", ".join(f"{name} {value}" for name, value in found.items() if value)}
    facts["sampler"] = ", ".join(f"{name} {value}" for name, value in data.sampler.fingerprint().items())
    if cache := config.data.get("cache_dir"):
        facts["cache"] = str(cache)
    return facts


def _samples(data: Any, share: dict[str, Any]) -> dict[str, str]:
    """The samples of the first micro-batch as marked text."""
    ids = share["sample_ids"].tolist()
    texts = marked_texts(share["micro_batches"][0], data.tokenizer, data.collator)
    return {f"epoch {epoch}, {index}": text for (epoch, index), text in zip(ids, texts, strict=False)}


def _histogram(data: Any) -> dict[str, str]:
    """The histogram of the lengths of sequences."""
    step = max(1, len(data.train) // MOST_MEASURED)
    lengths = data.train.lengths(np.arange(0, len(data.train), step))
    width = -(-(int(np.ptp(lengths)) + 1) // HISTOGRAM_LINES)
    edges = np.arange(lengths.min(), lengths.max() + width + 1, width)
    counts, _ = np.histogram(lengths, bins=edges)
    lines = {}
    for count, low in zip(counts, edges, strict=False):
        name = f"{low:,} to {low + width - 1:,}" if width > 1 else f"{low:,}"
        lines[name] = f"{'█' * round(BAR * count / counts.max())} {count / len(lengths):.1%}"
    low, middle, high = np.percentile(lengths, [0, 50, 100])
    return lines | {"all": f"{low:.0f} to {high:.0f}, median {middle:.0f}, mean {lengths.mean():.1f}"}


def _fill(batches: Any) -> dict[str, str]:
    """The share of tokens that are not padding, and the number of micro-batches."""
    shares = [batches[step] for step in range(min(FILLED, len(batches)))]
    tokens, places = (sum(share[name] for share in shares) for name in ("tokens", "padded_tokens"))
    micro = sum(len(share["micro_batches"]) for share in shares) / len(shares)
    rate = f"{tokens / places:.1%} of the places hold text ({'packed' if batches.packed else 'padded'})"
    return {"fill rate": rate, "micro-batches": f"{micro:.1f} per rank and step"}


def _costs(config: DictConfig, parts: Parts, optimizer: Any, batches: Any, ranks: int) -> dict[str, Any]:
    """Memory, FLOPs and time of the run, from one step that is tried."""
    import torch

    from iolaus.runner.loop.trainer import resolve_accelerator, resolve_precision
    from iolaus.runner.loop.trial import try_step
    from iolaus.runner.models.autocast import usable_precision
    from iolaus.runner.models.flops import peak_flops, step_flops

    accelerator = resolve_accelerator(config.trainer.accelerator)
    device = torch.device("cuda" if accelerator == "gpu" else accelerator)
    precision = resolve_precision(config.trainer.precision, accelerator)
    if config.trainer.precision == "auto":
        precision = usable_precision(precision, parts.module.model, parts.data.layout)
    share = batches[0]
    cost = try_step(parts.module, optimizer, share, device, precision)
    per_step = ranks * step_flops(parts.module.model, parts.module.model.flop_counts(), share)
    total = parts.max_steps * cost.step_seconds
    shards = ranks if config.trainer.get("strategy") == "fsdp" else 1
    name = torch.cuda.get_device_name() if device.type == "cuda" else device.type
    rate = f"{ranks * share['tokens'] / cost.step_seconds:,.0f} tokens per second"
    if peak := peak_flops(name, precision):
        rate += f", {per_step / ranks / cost.step_seconds / peak:.1%} of the device's peak"
    memory = {part: _size(getattr(cost, part) / shards) for part in ("weights", "gradients", "optimizer")}
    memory["activations"] = f"{_size(cost.activations)}, of the largest micro-batch"
    memory["together"] = _size((cost.memory - cost.activations) / shards + cost.activations)
    return {
        f"memory, each of {ranks}" if ranks > 1 else "memory": memory,
        "time": {
            "steps": f"{parts.max_steps:,}, {parts.data.epoch_at(parts.max_steps):.2f} epochs",
            "FLOPs": f"{per_step:.3g} a step, {per_step * parts.max_steps:.3g} in all",
            "speed": f"{rate}, {precision}, measured on {name}",
            "training": f"{clock(total)}, validation and checkpoints not counted",
        },
    }


def _size(count: float) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
