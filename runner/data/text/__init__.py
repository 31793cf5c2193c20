"""Documents for pretraining.

- `tokenizer`: trains or loads tokenizers; `chunking`: texts to ids and sequences; `tokenise`: chunks texts in a `pool`
  of processes; `vocabulary`: the share of unknown tokens, and whether single words are read as in running text.
- `holdout`: validation documents, and folds of examples; `prepare`: does all of the above and caches token stores.
- `pretraining`: `PretrainingData`, the data module that serves the stores; `stored`: for stores prepared before.
- `stream`, `streamed`: the data module without stores, which tokenises documents as it reads them.
"""
