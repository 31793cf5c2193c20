"""Pretraining on several sources of text in given shares.

- `module`: `MixtureData`, the data module; each source is a `PretrainingData` of its own in it. Its samples are those of
  all sources, one source after the other.
- `sources`: what the sources decide together: the tokenizer, texts that one of them holds out from all, and weights or
  sizes as draws, tokens and epochs of each source.
"""
