"""Attention and dropout over packed rows, in which no document sees another.

- `rows`: chooses the layout of rows for a model, and sets packed rows up.
- `attention`: the attention of packed documents, as an interface of transformers; `kernels`: the choice of flash
  attention on a GPU; `documents`: their positions in a row, and chosen tokens.
- `flash_documents`: flash attention on a CPU, document by document.
- `dropout`: dropout by 16 random bits; `dropout_keys`: computes these bits from sample and position, and noise on
  embeddings from the same bits.
- `causal`: marks documents that are read causally.
- `last_layer`: the last layer on the tokens with a target only.
- `trials`: documents to try a model with, and the tolerance of results.
"""
