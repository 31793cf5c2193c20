"""Predictions of a trained model, and its export.

- `passes`: one pass over samples, computed as in the run, and what it measures.
- `kinds`: turns rows into predictions and their metrics, one class for each kind of model: `labelled`, `answering`
  about images, `vectors` of texts, and for `language` models masks filled in and texts continued.
- `predictor`: `Predictor`, any of these with predictions for rows; `evaluated`: metrics on new data.
- `frozen`: features of an encoder that is not trained, and their metrics.
- `mining`: hard negatives for pairs of texts.
- `export`: the model as a Hugging Face folder; `card`: its model card.
"""
