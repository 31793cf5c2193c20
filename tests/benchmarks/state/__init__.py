"""Measurements of what is done with a run's state."""
