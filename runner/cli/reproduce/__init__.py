"""`tiryns reproduce`: builds a run again and tells whether it came out the same.

- `command`: the subcommand; `rebuilding`: the command that trains the run anew from its manifest, and its commit.
- `comparison`: what two runs have computed, step by step.
"""
