"""Token sequences on disk.

- `reader`: `TokenStore`, memory-mapped, and the format of its files.
- `writer`: appends sequences in pieces; a killed writer is continued.
- `cached`: entries of a cache that one process makes while others wait.
"""
