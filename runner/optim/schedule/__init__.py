"""The learning rate over the run.

`phases` has the three-phase schedule as a closed form of the step, `warmup_decay` the shorter form of `FinetuningModule`,
`schedulers` applies either to an optimizer, and `plot` draws it.
"""
