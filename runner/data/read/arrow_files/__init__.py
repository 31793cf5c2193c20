"""Batches of parquet and arrow files, bounded by what they unpack to.

- `batches`: the batches of a file; `sizes`: what values take once they are unpacked; `pages`: the pages of parquet.
"""
