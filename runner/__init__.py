"""What runs. `train` is the program from the command line to the exported model, `build` makes objects from configs.

From the top; an import runs downwards only:

- `in_python`: composing, running and assembling from Python.
- `cli`: subcommands; `sweeps`: many runs; `launch`: the processes of a run.
- `callbacks`, `modules`, `loop`: the training of one run in one process.
- `report`: pages; `inference`: predictions and export; `checkpoints`, `logging`: files that a run writes.
- `loaders`: data modules for a plain `lightning.Trainer`; `tasks`: finetuning tasks, one object each.
- `objectives`, `models`, `evaluation`: targets, task models, metrics.
- `data`: from text, rows and images to micro-batches; `config`: what a config may say.
- `optim`, `samplers`, `order`: updates; global batches; the functions that both are made of.
- `run`: a run on disk.
"""

import sys

if __name__ == "runner":  # found by its folder, as from a checkout: there is one copy of it, of another name
    from iolaus import runner

    sys.modules["runner"] = runner
