"""Vectors of whole texts.

- `folder`: how texts become vectors, by the folders of sentence-transformers, and the settings that a run takes over.
- `pooling`: one vector for each document from the hidden states of its tokens.
- `contrastive`: the task models of pairs; `losses`: their losses over a whole batch.
"""
