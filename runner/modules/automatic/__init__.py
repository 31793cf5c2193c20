"""LightningModules on the batches of a collator, for a plain Trainer.

- `base`: their base class; `pretraining`, `finetuning`: the modules.
- `set_figures`: loss and metrics of an evaluated set.
"""
