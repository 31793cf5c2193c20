"""`tiryns doctor [SETTINGS]`: what this machine can do, and what a run of the settings would choose here.

It shows processor, memory, GPUs, disk, SLURM, packages and extras; what `auto` comes to for the settings, as in
`resolved` of a run's `status.json`; and what to install or set. It reads no data, builds no model and asks no network.
The exit status is 0 where a run of the settings can begin, and 4 where this machine lacks something that it needs.
"""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from tiryns.runner.cli.compose import compose, initialized
from tiryns.runner.cli.doctor import libraries, machine
from tiryns.runner.cli.doctor.choice import Choice, choose
from tiryns.runner.cli.doctor.machine import GIB, Facts
from tiryns.runner.config.checks import check_config
from tiryns.runner.config.permissions import on_command_line
from tiryns.runner.data.store.writer import cache_folder
from tiryns.runner.report.summary import show
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.command.status import DIFFERENT
from tiryns.runner.run.environment import PACKAGES, environment

SHOWN_FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "asimd", "sve", "sve2", "bf16")
"""Units of a processor by which matrices are multiplied, for the screen."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("overrides", nargs="*", metavar="SETTING", help="such as trainer.devices=8")


def main(arguments: Namespace) -> None:
    """Prints what was found; raises ValueError for settings that are wrong on any machine."""
    with initialized(), on_command_line(arguments.overrides):
        config = compose(arguments.overrides)
        check_config(config)
    choice = choose(config)
    found = findings(Path(str(config.outputs)))
    if arguments.json:
        told = {"chosen": choice.values, "reasons": choice.reasons}
        print_json({**found, **told, "problems": choice.problems, "hints": choice.hints})
    else:
        show("tiryns doctor", screen(found, choice))
    if choice.problems:
        sys.exit(DIFFERENT)


def findings(outputs: Path) -> Facts:
    """What there is, as values."""
    return {
        "processor": machine.processor(),
        "memory": machine.memory(),
        "gpus": _usable(),
        "driver": {"version": machine.driver(), "gpus": machine.gpus_of_driver()},
        "disk": {"outputs": machine.disk(outputs), "cache": machine.disk(cache_folder())},
        "slurm": machine.slurm(),
        "compiler": machine.compiler(),
        "versions": {name: environment()[name] for name in ("python", *PACKAGES)},
        "extras": libraries.extras(),
    }


def screen(found: Facts, choice: Choice) -> dict[str, dict[str, str]]:
    """The same for people, in lines by section."""
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items() if number)
    ready = [each["extra"] for each in found["extras"] if each["installed"]]
    lacking = {each["extra"]: each["for"] for each in found["extras"] if each["installed"] is False}
    of_driver = ", ".join(found["driver"]["gpus"])
    unusable = f" that torch can use ({of_driver})" if of_driver else ""
    here = {
        "processor": _processor(found["processor"]),
        "memory": f"{_size(found['memory']['total'])}, {_size(found['memory']['available'])} free",
        "GPU": "; ".join(map(_gpu, found["gpus"])) or f"none{unusable}",
        "disk": ", ".join(f"{_size(each['free'])} free for {each['folder']}" for each in found["disk"].values()),
        "SLURM": _slurm(found["slurm"]),
        "compiler": found["compiler"] or "none",
        "versions": versions,
        "extras": ", ".join(ready) or "none",
    }  # fmt: skip
    values = {name: str(value) for name, value in choice.values.items() if value is not None}
    return {
        "this machine": here,
        "a run would choose": {name: f"{value} ({choice.reasons[name]})" for name, value in values.items()},
        "not installed": {name: f"pip install 'tiryns[{name}]': {purpose}" for name, purpose in lacking.items()},
        "worth changing": _numbered(choice.hints),
        "in the way": _numbered(choice.problems),
    }  # fmt: skip


def _usable() -> list[Facts]:
    try:
        return machine.gpus_of_torch()
    except Exception:  # torch is missing or broken, which `choose` tells
        return []


def _processor(facts: Facts) -> str:
    units = " ".join(name for name in facts["features"] if name in SHOWN_FEATURES)
    fewer = facts["usable_cores"] != facts["cores"]
    usable = f", {facts['usable_cores']} of {facts['cores']} cores for this process" if fewer else ""
    return f"{facts['name']}, {facts['architecture']}{usable}" + (f", {units}" if units else "")


def _gpu(facts: Facts) -> str:
    flash = "with" if facts["flash"] else "without"
    return f"{facts['name']}, {_size(facts['memory'])}, compute capability {facts['capability']}, {flash} flash attention"


def _slurm(facts: Facts) -> str:
    submits = "-m hydra/launcher=slurm submits jobs" if facts["sbatch"] else "none"
    if facts["job"] is None:
        return submits
    return f"job {facts['job']}, {facts['nodes'] or '?'} nodes, {facts['tasks'] or '?'} tasks"


def _size(number: int | None) -> str:
    return "unknown" if number is None else f"{number / GIB:,.1f} GiB"


def _numbered(lines: list[str]) -> dict[str, str]:
    return {str(number): line for number, line in enumerate(lines, start=1)}
