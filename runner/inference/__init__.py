"""Predictions of a trained model, and its export.

- `passes`: the forward pass over a set of samples, computed as in the run, and the sums of its results.
- `kinds`: base classes of models that turn rows into predictions and metrics. Subclasses: `labelled` (labels of texts and
  words), `answering` (questions about images), `vectors` (of texts), `language` (fills in masks, continues texts).
- `predictor`: `Predictor` loads any of these models and predicts for rows; `evaluated`: metrics on new data.
- `frozen`: features of an encoder that is not trained, and their metrics.
- `mining`: hard negatives for pairs of texts.
- `export`: the model as a Hugging Face folder; `card`: its model card.
"""
