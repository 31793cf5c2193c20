"""Probabilities that can be believed."""
