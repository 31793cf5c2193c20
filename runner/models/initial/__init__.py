"""The initial state of a model: the dtype of its weights, and initial weights that transformers does not offer.

- `dtypes`: the type that the run's precision decides, whatever type a file has.
- `schemes`: published schemes that depend on depth and width (`model.init`).
- `tiling`: from a smaller encoder (`model.tiled_from`).
- `vocabulary`: from an encoder with another vocabulary (`model.new_vocabulary`).
"""
