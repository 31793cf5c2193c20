"""Predictions by kind, each a subclass of `evaluation.predictions.Predictions`.

- `labels`: of texts, and choices; `words`, and `tags`: words in several columns of labels; `spans` of contexts;
  `written_answers` on images; `vectors` of pairs of texts.
"""
