"""What can be wrong with prepared data, each with words its message must have.

- `stores`: sharded stores of tokens; `archives`: energon data sets of tar shards.
"""
