"""Documents for pretraining.

- `tokenizer`: trained or loaded; `encoding`: texts to ids; `chunking`: ids to sequences; `tokenise`: both, in a `pool` of
  processes; `vocabulary`: what a tokenizer lacks.
- `holdout`: validation documents; `prepare`: all of the above, into token stores in a cache.
- `pretraining`: `PretrainingData`, the data module that serves the stores; `stored`: of a store prepared before.
- `stream`, `streamed_batches`, `streamed`: the same without stores, tokenised as it is read.
"""
