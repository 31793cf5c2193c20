"""Predictions of a trained model, and its export.

- `labelled`: labels, labels of words, and answers in contexts; `answering`: answers about images.
- `passes`: one pass over samples, computed as in the run; `measuring`: the figures of a set by it.
- `evaluated`: figures on data that comes later, of labelled examples by `labelled`, of questions about images by
  `measured_answers`, of text by `language`, which also guesses masks.
- `vectors`: those of texts, by models that were trained for them.
- `frozen`: features of an encoder that is not trained, and what they are worth.
- `export`: the model as a Hugging Face folder; `card`: its model card, with `hub_metadata`.
- `predictor`: `Predictor`, any of these models with predictions for rows, by the `kinds` of models that there are;
  `opened_run`: a run opened in Python.
"""
