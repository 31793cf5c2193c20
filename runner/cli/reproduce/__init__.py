"""`tiryns reproduce`: builds a run again and tells whether it came out the same.

- `command`: the subcommand; `rebuilding`: the command that trains a recorded run again, and the code of its commit.
- `comparison`: compares two runs step by step: order, loss, weights and optimizer state.
"""
