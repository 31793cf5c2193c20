"""How a command answers.

- `status`: the exit statuses of all commands and of ranks.
- `json_output`: the answer as one JSON document on standard output, and nothing else there; `tables`: rows as a file.
- `failure`: what `--json` prints of a failure: its code, its message and its cure.
- `overrides`: a one-line message for overrides from which Hydra cannot compose a config.
- `words`: the overrides and flags that a run records, and seals of the words that the user has typed.
- `lifetime`: how one command starts another, and when processes and their output end.
"""
