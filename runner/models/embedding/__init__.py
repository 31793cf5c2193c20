"""Vectors of whole texts.

- `folder`: reads and writes folders of sentence-transformers, and fills in a run's settings from such a folder.
- `pooling`: one vector for each document from the hidden states of its tokens.
- `contrastive`: the task models of pairs; `losses`: their losses over a whole batch.
"""
