"""A run in one process.

- `assembly`: the parts of a run, built and connected. Read it first.
- `trainer`: Lightning's Trainer for the hardware; `resolved`: the values of all settings that are `auto`, and the types
  of weights when a run resumes.
- `lengths`: the length of a run, given in steps or counted from its data, and the schedules that depend on it.
- `phases`: the phases of a run: their lengths in steps, their samplers and their objectives.
- `token_ramps`: converts warm-ups and cool-downs from tokens to steps.
- `budget`: converts a budget of tokens or FLOPs to steps.
- `sharding`: FSDP2, tensor parallelism, and ranks of one replica.
- `trials`: trial steps before a run, which measure its cost.
- `plain`: models, optimizers and schedulers of torch and transformers; `lightning_loop`: LightningModules of the user.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.loop.assembly import Parts, assemble
    from tiryns.runner.loop.trainer import build_trainer
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Parts", "assemble", "build_trainer"]
