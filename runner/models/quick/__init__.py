"""Shortcuts of a training step on a CPU, which change its results only by rounding.

- `gradients`: the shortcuts that a step allows; gradients of embedding tables for the rows of a batch only; clipping.
- `linear_cross_entropy`: the loss of a language model without its logits.
"""
