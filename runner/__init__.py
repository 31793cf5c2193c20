"""The program: `train` goes from the command line to the exported model, `build` makes objects from configs.

Imports run downwards in this list:

- `in_python`: composes configs, and trains or assembles runs, from Python.
- `cli`: subcommands; `sweeps`: many runs; `launch`: the processes of a run.
- `callbacks`, `modules`, `loop`: the training of one run in one process.
- `opened_run`: a run opened in Python; `report`: pages.
- `inference`: predictions and export; `checkpoints`, `logging`: files that a run writes.
- `loaders`: data modules for a plain `lightning.Trainer`; `tasks`: finetuning tasks, one object each.
- `objectives`, `models`, `evaluation`: targets, task models, metrics.
- `data`: from text, rows and images to micro-batches; `config`: checks of configs.
- `optim`: optimizers; `samplers`: samplers of global batches; `order`: which samples make a batch, by seed and step.
- `manifest`: digests of what made a run; `run`: a run on disk; `patches`: uses of private names of libraries.
- `protocols`: attributes and methods that a run uses on its parts; `widening`: casts to at least fp32.
"""

from logging import getLogger  # not the module, whose name is that of a part of this package

log = getLogger("tiryns")
"""The log of the program, which every part writes to."""
