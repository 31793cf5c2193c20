"""Vectors of whole texts.

- `folder`: how texts become vectors, as folders of sentence-transformers say it.
- `start`: what is kept of such a folder that a training begins with.
- `pooling`: one vector for each document from the hidden states of its tokens.
- `contrastive`: the task models of pairs; `losses`: their losses over a whole batch.
"""
