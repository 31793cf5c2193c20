"""Shortcuts of a training step on a CPU, which change its results only by rounding.

- `gradients`: shortcuts that a step allows; gradients of tables only for the rows of the batch, and their clipping.
- `linear_cross_entropy`: the loss of a language model without its logits.
"""
