"""LightningModules on the batches of a collator, for a plain Trainer.

- `base`: their base class; `pretraining`, `finetuning`: the modules.
"""
