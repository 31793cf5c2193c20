"""Language models on text.

- `figures`: the loss on documents; `likelihood`: the pseudo-perplexity of documents, and scores of sentence pairs.
- `infill`: guesses for masks, and continuations of texts by causal models.
"""
