"""Predictions of a trained model, and its export.

- `labelled`: labels, labels of words, and answers in contexts; `answering`: answers about images; `infill`: masks.
- `export`: the model as a Hugging Face folder.
- `trained_model`: any of these models, and predictions for rows; `opened_run`: a run opened in Python.
"""
