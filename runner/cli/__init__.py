"""The command line: `tiryns` and its subcommands.

- `commands`: the table of subcommands, and the program that runs one; `completion`: what a shell offers for a word.
- `compose`: a config as the command line composes it, and the overrides that compose one.
- `info`, `schema`: options and their fields; `plan`: what a run would do; `schedule`: its learning rate.
- `order`: the samples of any step; `verify`: whether a run was changed since; `reproduce`: whether
  it comes out the same again.
- `runs`, `report`, `audit`: the runs that there are, as tables and pages, and compared step by step.
- `judge`: whether one setting is better than another, by pairs of equal seeds.
- `ladder`: the best rate of each width, and what the next one will reach.
- `models`: subcommands that take a trained model; `prepare`: energon data sets; `prepare_corpus`: large corpora.
- `agents`: the commands for software agents, as a table and by the Model Context Protocol.
- `new`: a project of one's own; `doctor`: what this machine can do; `version`: versions.
"""
