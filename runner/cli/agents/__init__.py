"""Software agents as users of the program.

- `tools`: the commands as JSON (argument types, whether they write, what they print), and the command line of a call.
- `server`: `tiryns mcp`, which serves the same table by the Model Context Protocol.
"""
