"""A run on disk: its folder, metrics file, audit, environment, signals, errors, and texts without secrets."""
