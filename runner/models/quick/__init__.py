"""What a training step on a CPU leaves out, without a change to its results but by rounding.

- `allowed`: what the present step allows.
- `linear_cross_entropy`: the loss of a language model without its logits.
- `embedding`: gradients of tables for the rows of the batch, and clipping of these alone.
"""
