"""Draws the learning rate of any config without training: prints it over the steps, and writes it as a PNG.

`iolaus schedule [overrides]` takes the overrides of `iolaus train`.
"""

from argparse import ArgumentParser, Namespace

from omegaconf import DictConfig

from iolaus.runner.cli.compose import compose, initialized


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the words of the command."""
    parser.add_argument("overrides", nargs="*", help="such as scheduler=cosine optimizer.lr=1e-3")
    parser.add_argument("--png", default="schedule.png", help="where the picture goes (default: %(default)s)")


def main(arguments: Namespace) -> None:
    """Prints the drawing, and where the picture lies."""
    with initialized():
        config = compose(arguments.overrides)
    print(draw(config, arguments.png))
    print(f"\nwritten to {arguments.png}")


def draw(config: DictConfig, png: str) -> str:
    """Writes the config's schedule to a PNG; returns it drawn in characters.

    Raises ValueError where the number of steps follows from the data, or the scheduler has no closed form.
    """
    import torch

    from iolaus.runner.build import allow_code, bind
    from iolaus.runner.optim.schedule.plot import draw_schedule
    from iolaus.runner.optim.schedule.schedulers import ThreePhaseScheduler

    max_steps = int(config.trainer.max_steps)
    if max_steps < 1:
        raise ValueError(
            "trainer.max_steps=-1 follows from the data; give a number of steps to draw the schedule"
        )
    allow_code(config)
    lr = float(config.optimizer.lr)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = bind(config.scheduler)(optimizer=optimizer, max_steps=max_steps)
    if not isinstance(scheduler, ThreePhaseScheduler):
        raise ValueError(
            f"the scheduler {type(scheduler).__name__} has no closed form; draw one of the config's own"
        )
    return draw_schedule(scheduler.schedule, max_steps, png, lr)
