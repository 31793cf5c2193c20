"""Predictions of a trained model, and its export.

- `passes`: one pass over samples, computed as in the run, and what it measures.
- `kinds`: what turns rows into predictions and their figures, one class for each kind of model: `labelled`, `answering`
  about images, `vectors` of texts, and for `language` models masks filled in and texts continued.
- `predictor`: `Predictor`, any of these with predictions for rows; `evaluated`: figures on data that comes later.
- `frozen`: features of an encoder that is not trained, and what they are worth.
- `mining`: hard negatives for pairs of texts.
- `export`: the model as a Hugging Face folder; `card`: its model card.
"""
