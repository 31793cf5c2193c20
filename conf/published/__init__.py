"""Recipes of published encoders, on Hydra's search path: `tiryns experiment=modernbert`.

- `experiment/`: one file each; `experiment/toy/`: what `scale=toy` changes of them.
- `scale/`: what all recipes of a scale have.
"""
