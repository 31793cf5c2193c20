"""A run in one process: its parts put together (`assembly`), the Trainer, sharding, what `auto` came to."""
