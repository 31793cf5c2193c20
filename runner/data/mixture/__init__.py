"""Pretraining on several sources of text in given shares.

- `module`: `MixtureData`, the data module; each source is a `PretrainingData` of its own in it. Its samples are those of
  all sources, one source after the other.
- `held_out`: what the sources decide together: the tokenizer, and texts that one of them holds out from all.
- `shares`: weights or sizes as draws, tokens and epochs of each source.
"""
