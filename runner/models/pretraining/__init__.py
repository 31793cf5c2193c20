"""Task models of pretraining.

- `sparse_head`: masked language models, whose head reads the targets alone; `head_alone`: that head as it is compiled.
- `fixed_shapes`: both in packed rows of one shape, as CUDA graphs.
- `causal`: next tokens, alone or beside masked ones.
- `diffusion`: masked diffusion; `enhanced`: RetroMAE's decoder.
- `replaced_tokens`: ELECTRA and DeBERTa-v3; `generator`: their generator; `shared_embeddings`: what both networks share.
- `objective_field`: how an exported model says in its config what it was trained to guess.
"""
