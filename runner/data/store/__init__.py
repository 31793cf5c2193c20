"""Token sequences on disk.

- `reader`: `TokenStore`, memory-mapped, and the format of its files.
- `writer`: appends sequences in pieces, a killed writer is continued; entries of a cache that one process makes.
- `sharded`: `ShardedStore`, several of them read as one, and the index of its folder.
- `remote`: folders on this machine or under a URL.
"""
