"""Predictions by kind, each a subclass of `evaluation.predictions.Predictions`.

- `labels`: labels of texts, and the thresholds above which they are predicted; `words`: labels of words; `spans`:
  answers in contexts; `written_answers`: answers on images; `vectors`: vectors of pairs of texts.
"""
