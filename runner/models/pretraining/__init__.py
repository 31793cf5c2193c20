"""Task models of pretraining.

- `sparse_head`: masked language models, whose head reads the targets alone; how an exported model says in its config what
  it was trained to guess.
- `fixed_shapes`: packed rows of lengths that come back, for compiled kernels, and of one shape, for CUDA graphs.
- `causal`: next tokens, alone or beside masked ones.
- `diffusion`: masked diffusion; `enhanced`: RetroMAE's decoder.
- `replaced_tokens`: ELECTRA and DeBERTa-v3; `generator`: their generator, and the embeddings
  that both networks share.
"""
