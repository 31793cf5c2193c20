"""Pretraining on several sources of text in given shares.

- `module`: `MixtureData`, the data module. It has one `PretrainingData` per source, and the samples of all sources, one
  source after the other.
- `sources`: decides for all sources: the tokenizer; which texts no source trains on, because one source holds them out;
  and the draws, tokens and epochs of each source, from its weight or size.
"""
