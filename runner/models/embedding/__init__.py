"""Vectors of whole texts.

- `folder`: how texts become vectors, as folders of sentence-transformers say it, and what a training keeps of one.
- `pooling`: one vector for each document from the hidden states of its tokens.
- `contrastive`: the task models of pairs; `losses`: their losses over a whole batch.
"""
