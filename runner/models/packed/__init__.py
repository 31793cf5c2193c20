"""Attention and dropout over packed rows, in which no document sees another."""
