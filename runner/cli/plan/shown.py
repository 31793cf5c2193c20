"""Prints a plan for people, each part as soon as it is known, or as one JSON document."""

from collections.abc import Callable
from typing import Any

from omegaconf import DictConfig

from tiryns.runner.cli.plan.content import Facts, plan_of
from tiryns.runner.cli.plan.nominal import UTILISATION, nominal_plan
from tiryns.runner.config.checks import lacks_data
from tiryns.runner.report.summary import clock, group_summary, show
from tiryns.runner.report.table import as_text
from tiryns.runner.run.command.json_output import print_json, wants_json

BAR = 40  # characters of the longest bar

LEFT_OUT = "Python and its libraries, loader processes, the data, buffers between ranks, what the allocator keeps free"
"""Memory that a trial of a step does not measure."""


def show_plan(config: DictConfig) -> None:
    """Prints the plan of a run; raises the errors of config and data that the run would raise."""
    if lacks_data(config):
        plan = nominal_plan(config)
        print_json(plan) if wants_json() else _show_nominal(plan)
        return
    if wants_json():
        print_json(dict(plan_of(config)))
        return
    parts: Facts = {}
    for name, part in plan_of(config):
        parts[name] = part
        if name in SHOWN and part is not None:
            SHOWN[name](part)
    _show_costs(parts)
    print("nothing was trained; `tiryns train` with the same words trains", flush=True)


def _show_nominal(plan: Facts) -> None:
    parameters = plan["parameters"]
    sizes = f"{parameters['total']:,} parameters, {parameters['without_embeddings']:,} without embeddings"
    phases = {each["name"]: _phase(each) for each in [*plan["phases"], {**plan, "name": "in all"}]}
    gpus = {
        each["name"]: f"{each['hours']:,.0f} hours of one, {each['tokens']:.4g} tokens, at {UTILISATION:.0%} of "
        f"{each['peak_tflops']:g} TFLOP/s"
        for each in plan["gpus"]
    }  # fmt: skip
    hours = plan["published_hours"]
    published_row = {"published": f"hours of the run of the published size: {hours}"} if hours else {}
    network = {"architecture": plan["model"], "size": sizes}
    sections = {"model": network, "phases": phases, "time": {**gpus, **published_row}}
    show("the plan without data: sequences of full length, one document each", sections)
    points = plan["points"]
    names = [name for name in points[0] if any(point[name] is not None for point in points)]
    rows = [[_cell(point[name]) for name in names] for point in points]
    widths = [max(len(row[column]) for row in [names, *rows]) for column in range(len(names))]
    for row in [[name.replace("_", " ") for name in names], *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print("no data is given; with data.source or data.mixture the plan is exact", flush=True)


def _phase(phase: Facts) -> str:
    length = f", {phase['length']:,} tokens a sequence" if "length" in phase else ""
    return f"{phase['tokens']:.4g} tokens, {phase['steps']:,} steps{length}, {phase['flops']:.3g} FLOPs"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _show_data(data: Facts) -> None:
    facts = {"samples": "known only as they are read"}
    if data["fingerprints"] is not None:
        facts = {
            "fingerprints": ", ".join(f"{name} {value}" for name, value in data["fingerprints"].items()),
            "sampler": ", ".join(f"{name} {value}" for name, value in data["sampler"].items()),
        }
    cache = {"cache": data["cache"]} if data["cache"] else {}
    show("the plan", {"data": {**data["described"], **facts, **cache}})


def _show_phases(phases: list[Facts]) -> None:
    """Prints a table of phases, without columns that no phase fills."""
    cells = [
        {
            "phase": row["name"],
            "steps": f"{row['steps']:,}",
            "about tokens": f"{row['tokens']:,}" if row["tokens"] else "",
            "max_length": str(row["max_length"] or ""),
            "sequences": _range(row["batch"]),
            "masking": _range(row["masking"]),
            "sources": ", ".join(f"{name} {share:.1%}" for name, share in row["shares"].items()),
            "own settings": ", ".join(f"{name} {value}" for name, value in row["own"].items()),
        }
        for row in phases
    ]
    heads = [head for head in cells[0] if any(row[head] for row in cells)]
    print("phases", as_text(heads, [[row[head] for head in heads] for row in cells]), sep="\n", flush=True)


def _range(ends: list[float] | None) -> str:
    return "" if ends is None else f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"


def _show_samples(samples: list[Facts]) -> None:
    texts = {f"epoch {each['epoch']}, {each['index']}": each["text"] for each in samples}
    show("samples as the model gets them", {"samples": texts})


def _show_lengths(lengths: Facts) -> None:
    most, lines = max(each["share"] for each in lengths["histogram"]), {}
    for each in lengths["histogram"]:
        low, high = each["from"], each["to"]
        name = f"{low:,} to {high:,}" if high > low else f"{low:,}"
        lines[name] = f"{'█' * round(BAR * each['share'] / most)} {each['share']:.1%}"
    low, middle, high, mean = (lengths[name] for name in ("min", "median", "max", "mean"))
    lines["all"] = f"{low:.0f} to {high:.0f}, median {middle:.0f}, mean {mean:.1f}"
    layout = "packed" if lengths["packed"] else "padded"
    fill = {
        "fill rate": f"{lengths['fill']:.1%} of the places hold text ({layout})",
        "micro-batches": f"{lengths['micro_batches']:.1f} per rank and step",
    }
    show("lengths", {"tokens": lines, "fill": fill})


def _show_optimizer(optimizer: Facts) -> None:
    from tiryns.runner.optim.schedule.plot import in_characters

    group_summary(optimizer["groups"], optimizer["phases"] or "")
    if schedule := optimizer["schedule"]:
        print("learning rate", *in_characters(schedule), sep="\n", flush=True)
    else:
        print(f"learning rate: {optimizer['scheduler']} tells it only step by step", flush=True)


def _show_costs(parts: Facts) -> None:
    sections = {"model": parts["model"]}
    if parts["budget"]:
        sections["length"] = {"budget": f"{parts['budget']}, {parts['steps']:,} steps"}
    if memory := parts["memory"]:
        facts = {name: _size(memory[name]) for name in ("weights", "gradients", "optimizer")}
        facts["activations"] = f"{_size(memory['activations'])}, of the largest micro-batch"
        facts["together"] = _size(memory["together"])
        facts["left out"] = LEFT_OUT
        ranks = parts["ranks"]
        sections[f"memory, each of {ranks}" if ranks > 1 else "memory"] = facts
    if time := parts["time"]:
        speed = f"{time['tokens_per_second']:,.0f} tokens per second"
        if time["mfu"] is not None:
            speed += f", {time['mfu']:.1%} of the device's peak"
        sections["time"] = {
            "steps": f"{parts['steps']:,}, {parts['epochs']:.2f} epochs",
            "FLOPs": f"{time['flops_per_step']:.3g} a step, {time['flops']:.3g} in all",
            "speed": f"{speed}, {time['precision']}, measured on {time['device']}",
            "training": f"{clock(time['seconds'])}, validation and checkpoints not counted",
        }
    show("what it takes", sections)


def _size(count: float) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


SHOWN: dict[str, Callable[[Any], None]] = {
    "dataset": _show_data, "phases": _show_phases, "samples": _show_samples, "lengths": _show_lengths,
    "optimization": _show_optimizer,
}  # fmt: skip
"""Printers of the parts that have a section of their own."""
