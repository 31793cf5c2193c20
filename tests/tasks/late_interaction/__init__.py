"""Vectors of tokens that are compared late."""
