"""What runs: `train.py` is the program, `build.py` makes what the config names; `data/` and `objectives/` make batches,
`modules/` holds the step, `optim/` the update, `report/` what is left to read."""

import sys

if __name__ == "runner":  # found by its folder, as from a checkout: there is one copy of it, of another name
    from iolaus import runner

    sys.modules["runner"] = runner
