"""Whether probabilities of classes can be believed: calibration error, temperature, and sets that hold the true class.

- `figures`: the figures, of probabilities and true classes.
- `report`: those of one set with what another set has fitted, as `evaluation.json` and `predictions.jsonl` have them.
"""
