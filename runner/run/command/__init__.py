"""How a command answers.

- `status`: the exit statuses of all commands and of ranks.
- `json_output`: the answer as one JSON document on standard output, and nothing else there; `tables`: rows as a file.
- `failure`: what `--json` tells of a failure: its code, its message, what cures it.
- `overrides`: one line for words that no config is composed of.
- `words`: overrides and flags that a run keeps, and seals of those that the user has typed.
- `lifetime`: how one command starts another, processes without parents, output without readers.
"""
