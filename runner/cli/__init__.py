"""The command line: subcommands, and questions that need no run.

- `commands`: which of them a command is.
- `info`, `schema`: options and their fields; `runs`: the runs under `outputs/`; `plan`: what a run would do.
- `predict`, `push`, `consolidate`, `schedule`: the commands `python -m runner.<name>`.
- `compose`: a config as the command line composes it, in code.
- `report`, `audit`, `prepare`, `schedule`, `version`: a subcommand each; `models`: those that take a trained model.
"""
