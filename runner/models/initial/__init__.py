"""What a model begins with: the type of its weights, and weights that are not those of transformers.

- `dtypes`: the type that the precision of the run says, whatever a file has.
- `schemes`: published schemes that depend on depth and width (`model.init`).
- `tiling`: from a smaller encoder (`model.tiled_from`).
- `vocabulary`: from an encoder with another vocabulary (`model.new_vocabulary`).
"""
