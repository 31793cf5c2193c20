"""Language models on text.

- `figures`: their loss on documents; `likelihood`: that of each token, masked by itself, and of pairs of sentences.
- `infill`: guesses for masks, and continuations of texts by causal models.
"""
