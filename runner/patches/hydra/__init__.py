"""Hydra 1.3 and 1.4: what a start of the program, a composition and a run change or use of it.

- `versions`: names that differ between the two versions.
- `plugins`: what makes a start slow. `arguments`: Hydra's own flags.
- `defaults`, `files`, `composed`: how a config is found, read and checked.
- `job`: a run as Hydra starts it, from Python.
"""
