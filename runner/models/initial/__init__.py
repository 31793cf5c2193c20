"""Initial weights of an encoder that are not those of transformers.

- `schemes`: published schemes that depend on depth and width (`model.init`).
- `tiling`: from a smaller encoder (`model.tiled_from`).
- `vocabulary`: from an encoder with another vocabulary (`model.new_vocabulary`).
"""
