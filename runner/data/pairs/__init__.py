"""Pairs of texts to train on: queries with passages, hard negatives or scores.

- `reader`: `PairsReader`, the columns of a row, and `PairSequences`, samples that are a row's texts.
- `module`: `PairsData`, the data module, which may have several sets with batches of one each.
"""
