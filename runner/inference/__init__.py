"""Predictions of a trained model, and its export.

- `labelled`: labels, labels of words, and answers in contexts; `answering`: answers about images; `infill`: masks.
- `passes`: one pass over samples, computed as in the run; `measuring`: the figures of a set by it.
- `evaluated`: figures on data that comes later, of labelled examples by `labelled`, of questions about images by
  `measured_answers`, of text by `language` and `pseudo_likelihood`.
- `frozen`: features of an encoder that is not trained, and what they are worth.
- `export`: the model as a Hugging Face folder.
- `predictor`: `Predictor`, any of these models with predictions for rows, by the `kinds` of models that there are;
  `opened_run`: a run opened in Python.
"""
