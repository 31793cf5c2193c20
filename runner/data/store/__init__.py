"""Token sequences on disk: read memory-mapped (`reader`), written in pieces (`writer`), made once (`cached`)."""
