"""Samples as rows of a micro-batch.

- `layout`: places of tokens in padded and packed rows, the hashes of samples, and lists of samples as padded rows.
- `flat`: flat samples as the batch of a `DataLoader`.
"""
