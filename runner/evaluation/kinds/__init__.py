"""Predictions by kind, each a subclass of `evaluation.predictions.Predictions`.

- `labels`: of texts, and thresholds above which they are predicted; `words`; `spans` of contexts; `written_answers` on
  images; `vectors` of pairs of texts.
"""
