"""What a training step on a CPU leaves out, without a change to its results but by rounding.

- `gradients`: what the present step allows; gradients of tables for the rows of the batch, and clipping of these alone.
- `linear_cross_entropy`: the loss of a language model without its logits.
"""
