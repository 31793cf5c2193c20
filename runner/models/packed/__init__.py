"""Attention and dropout over packed rows, in which no document sees another.

- `rows`: chooses the layout of rows for a model, and sets packed rows up.
- `attention`: the attention of packed documents, as an interface of transformers, and which flash attention there is on
  a GPU; `documents`: their places in a row, and tokens that are chosen.
- `flash_documents`: that of a CPU, document by document.
- `dropout`: dropout by 16 random bits; `dropout_keys`: these bits as a function of sample and position, and noise
  on embeddings by them.
- `causal`: which documents are read causally.
- `last_layer`: the last layer on the tokens with a target only.
- `trials`: documents to try a model with, and how much may differ.
"""
