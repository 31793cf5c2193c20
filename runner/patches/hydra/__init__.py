"""Hydra 1.3 and 1.4: private parts that the start of the program, compositions and runs change or use.

- `start`: names that differ between the two versions, plugins, Hydra's own flags, and a job from Python.
- `composition`: how a config is found, read and checked.
"""
