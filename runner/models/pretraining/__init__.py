"""Task models of pretraining.

- `sparse_head`: masked language models, whose head reads only the targets; the field in an exported model's config that
  names its objective.
- `fixed_shapes`: packed rows of recurring lengths, for compiled kernels, and of one shape, for CUDA graphs.
- `causal`: predicts next tokens, alone or together with masked tokens.
- `diffusion`: masked diffusion; `enhanced`: RetroMAE's decoder.
- `replaced_tokens`: ELECTRA and DeBERTa-v3; `generator`: their generator, and the embeddings
  that both networks share.
"""
