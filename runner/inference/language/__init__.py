"""Language models on text.

- `figures`: their loss on documents; `pseudo_likelihood`: that of each token, masked by itself;
  `minimal_pairs`: which of two sentences is the more likely.
- `infill`: guesses for masks; `generation`: continuations of texts by causal models.
"""
