"""Which samples make global batch k, and how it is cut: pure functions on integers and numpy arrays.

- `keyed`: random numbers as functions of keys: seeds, the keys of samples, the bits of tokens.
- `permutation`: the order of an epoch as a keyed bijection of [0, n), without a table.
- `mixture`: which source each draw of a mixture takes, in exact shares.
- `partition`: a global batch cut into ranks and micro-batches of equal work.
- `packing`: documents into rows of a capacity, best fit decreasing.
- `ranges`: several ranges of integers as one array.
- `timeline`: which phase of a run a step is in, and which global batch it trains on where some are left out.
"""
