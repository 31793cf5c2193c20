"""Pairs of texts to train on: queries with passages, hard negatives or scores.

- `reader`: `PairsReader` reads the columns of rows; `PairSequences` has the texts of a row as one sample.
- `module`: `PairsData`, the data module. It may have several sets; each global batch is from one set.
"""
