"""Language models on text.

- `figures`: their loss on documents; `likelihood`: the loss of each token masked alone, and of pairs of sentences.
- `infill`: guesses for masks, and continuations of texts by causal models.
"""
