"""What runs: `train.py` is the program, `build.py` makes what the config names; `data/` and `objectives/` make batches,
`modules/` holds the step, `optim/` the update, `report/` what is left to read."""
