"""Training samples that a run leaves out, with all else as it was: what is a document worth?

- `chosen`: the samples that `data.without` names.
- `order`: the order of the other samples, which does not move.
"""
