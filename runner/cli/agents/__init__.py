"""Software agents as users of the program.

- `tools`: the table of commands as JSON, with types of arguments, what writes and what is printed; the words of a call.
- `server`: `tiryns mcp`, which serves the same table by the Model Context Protocol.
"""
