"""How a command answers.

- `status`: the exit statuses of all commands and of ranks.
- `json_output`: the answer as one JSON document on standard output, and nothing else there.
- `overrides`: one line for words that no config is composed of.
- `started`: how one command starts another; `seals`: which words the user has typed.
"""
