"""Samples as rows of a micro-batch.

- `layout`: places of tokens in padded and packed rows, and the hashes of samples.
- `padded`: lists of samples as padded rows; `flat`: flat samples as the batch of a `DataLoader`.
"""
