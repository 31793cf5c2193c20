"""Hydra 1.3 and 1.4: what a start of the program, a composition and a run change or use of it.

- `start`: names that differ between the two versions, plugins, Hydra's own flags, and a job from Python.
- `composition`: how a config is found, read and checked.
"""
