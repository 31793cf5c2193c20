"""The three-phase schedule: as a closed form (`phases`), applied to an optimizer (`schedulers`), drawn (`plot`)."""
