"""The command line: `tiryns` and its subcommands.

- `commands`: the table of subcommands, and the program that runs one; `completion`: completions for the shell.
- `compose`: composes a config as the command line does, and finds the overrides that compose a given config.
- `info`, `schema`: options and their fields; `plan`: what a run would do; `schedule`: its learning rate.
- `order`: the samples of any step; `verify`: whether a finished run was changed;
  `reproduce`: whether a run gives the same results if it is trained again.
- `runs`, `report`: tables and pages of runs; `audit`: the samples of two runs, compared step by step.
- `judge`: whether one setting is better than another, by pairs of equal seeds.
- `ladder`: the best learning rate of each width, and the predicted loss of the next width.
- `models`: subcommands that take a trained model; `prepare`: energon data sets; `prepare_corpus`: large corpora.
- `agents`: the commands for software agents, as a table and by the Model Context Protocol.
- `new`: a project of one's own; `doctor`: what this machine can do; `version`: versions.
"""
