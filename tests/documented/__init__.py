"""The documented names in plain Python, one test per row: called as documented, without a config or a run."""
