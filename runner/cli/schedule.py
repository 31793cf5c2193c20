"""`python -m runner.schedule [overrides]`: draws the learning rate of any config without training.

Takes the overrides of `python -m runner.train`, prints the rate over the steps, and writes it as a PNG.
"""

import argparse
import sys
from collections.abc import Sequence

import hydra
from omegaconf import DictConfig

import iolaus.conf  # noqa: F401  registers the groups
from iolaus.runner.run.errors import explain, wants_traceback


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; a wrong config ends with one message and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m runner.schedule", description=__doc__.splitlines()[0])
    parser.add_argument(
        "overrides", nargs="*", help="as for runner.train, such as scheduler=cosine optimizer.lr=1e-3"
    )
    parser.add_argument("--png", default="schedule.png", help="where the picture goes (default: %(default)s)")
    given = parser.parse_args(arguments)
    try:
        print(draw(compose(given.overrides), given.png))
        print(f"\nwritten to {given.png}")
    except Exception as error:
        message = explain(error)
        if wants_traceback() or message is None:
            raise
        sys.exit(f"error: {message}")


def compose(overrides: Sequence[str]) -> DictConfig:
    """The config that `runner.train` would have with these overrides."""
    with hydra.initialize_config_module("iolaus.conf", version_base="1.3"):
        return hydra.compose("config", overrides=list(overrides))


def draw(config: DictConfig, png: str) -> str:
    """Writes the config's schedule to a PNG; returns it drawn in characters.

    Raises ValueError where the number of steps follows from the data, or the scheduler has no closed form.
    """
    import torch

    from iolaus.runner.build import allow_code, bind
    from iolaus.runner.config.completed import completed
    from iolaus.runner.optim.schedule.plot import draw_schedule
    from iolaus.runner.optim.schedule.schedulers import ThreePhaseScheduler

    max_steps = int(completed(config).trainer.max_steps)
    if max_steps < 1:
        raise ValueError(
            "trainer.max_steps=-1 follows from the data; give a number of steps to draw the schedule"
        )
    allow_code(config)
    lr = float(config.optimizer.get("lr", 1e-3))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = bind(config.scheduler)(optimizer=optimizer, max_steps=max_steps)
    if not isinstance(scheduler, ThreePhaseScheduler):
        raise ValueError(
            f"the scheduler {type(scheduler).__name__} has no closed form; draw one of the config's own"
        )
    return draw_schedule(scheduler.schedule, max_steps, png, lr)


if __name__ == "__main__":
    main()
