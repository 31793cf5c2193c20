"""Language models on text.

- `figures`: their loss on documents; `pseudo_likelihood`: that of each token, masked by itself.
- `infill`: guesses for masks; `generation`: continuations of texts by causal models.
"""
