"""Subcommands that take a trained model.

- `predict`: what it says of a text or a file.
- `push`: publishes its folder.
- `consolidate`: makes the folder from any checkpoint.
"""
