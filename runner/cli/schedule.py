"""Draws the learning rate of any config over the steps, without training.

`tiryns schedule [overrides]` takes the overrides of `tiryns train`.
"""

from argparse import ArgumentParser, Namespace

from tiryns.runner.cli.compose import add_config_dir_argument, compose, initialize
from tiryns.runner.config.permissions import allow_code, on_command_line
from tiryns.runner.run.command.json_output import print_json


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("overrides", nargs="*", help="such as scheduler=cosine optimizer.lr=1e-3")
    add_config_dir_argument(parser)


def main(arguments: Namespace) -> None:
    """Prints the learning rates; raises ValueError if the steps depend on the data or the schedule has no closed form."""
    with initialize(arguments.folders), on_command_line(arguments.overrides):
        config = compose(arguments.overrides)
        allow_code(config)
    import torch

    from tiryns.conf.phases import lengths_of
    from tiryns.conf.values import AT_LEAST_0
    from tiryns.runner.config.run_config import complete
    from tiryns.runner.loop.lengths import run_lengths
    from tiryns.runner.loop.phases import phases_in, settle_phases
    from tiryns.runner.loop.token_ramps import ramps_in
    from tiryns.runner.optim.schedule.plot import in_characters, numbers
    from tiryns.runner.optim.schedule.schedulers import ThreePhaseScheduler

    config = complete(config)
    phases = phases_in(config)
    lengths = lengths_of(phases, config.trainer) if phases else [int(config.trainer.max_steps)]
    setting = "phases of tokens" if phases else "trainer.max_steps=-1"
    if min(steps or -1 for steps in lengths) > 0:
        settle_phases(config, [steps for steps in lengths if steps])
        setting = next((ramp.where for ramp in ramps_in(config, config, config.trainer.max_steps)), "")
    if setting:
        raise ValueError(f"{setting}: its steps follow from the data; `tiryns plan` draws them")
    max_steps = int(config.trainer.max_steps)
    lr = float(config.optimizer.get("lr", 1e-3))
    if problem := AT_LEAST_0.problem(lr):
        raise ValueError(f"optimizer.lr={lr}: {problem}")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr, weight_decay=0.1)
    scheduler = run_lengths(config).make_scheduler()(optimizer=optimizer, max_steps=max_steps)
    if not isinstance(scheduler, ThreePhaseScheduler):
        raise ValueError(f"{type(scheduler).__name__} has no closed form; draw an option of this project")
    drawing = numbers(scheduler.schedule, max_steps, lr)
    if arguments.json:
        print_json(drawing)
    else:
        print(*in_characters(drawing), sep="\n")
