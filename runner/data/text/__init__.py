"""Documents for pretraining.

- `tokenizer`: trained or loaded; `chunking`: texts to ids and sequences; `tokenise`: that, in a `pool` of processes;
  `vocabulary`: what a tokenizer lacks, and whether it reads words as text.
- `holdout`: validation documents, and folds of examples; `prepare`: all of the above, into token stores in a cache.
- `pretraining`: `PretrainingData`, the data module that serves the stores; `stored`: of a store prepared before.
- `stream`, `streamed`: the same without stores, tokenised as it is read.
"""
