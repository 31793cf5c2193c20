"""Token sequences on disk.

- `reader`: `TokenStore`, memory-mapped, and the format of its files.
- `writer`: writes a store in pieces and resumes a killed writer; makes cache entries in one process.
- `sharded`: `ShardedStore`, several token stores that are read as one, and the index of their folder.
- `remote`: folders on this machine or under a URL.
"""
