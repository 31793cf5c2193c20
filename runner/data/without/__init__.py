"""Training samples that a run leaves out, with all else as it was: what is a document worth?

- `chosen`: the samples that `data.without` names, and the order of the others, which does not move.
"""
