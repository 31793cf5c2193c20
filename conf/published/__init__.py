"""Recipes of published encoders, on Hydra's search path: `tiryns experiment=modernbert`.

- `experiment/`: a file for each recipe; `experiment/toy/`: the changes to each recipe with `scale=toy`.
- `scale/`: the settings that all recipes of a scale share.
"""
