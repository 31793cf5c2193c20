"""Documents for pretraining.

- `tokenizer`: trains or loads tokenizers; `chunking`: texts to ids and sequences; `tokenise`: chunks texts in a `pool`
  of processes; `vocabulary`: the share of unknown tokens, and whether a tokenizer reads words as text.
- `holdout`: validation documents, and folds of examples; `prepare`: all of the above, into token stores in a cache.
- `pretraining`: `PretrainingData`, the data module that serves the stores; `stored`: for stores prepared before.
- `stream`, `streamed`: the data module without stores, which tokenises documents as it reads them.
"""
