"""Samples that a run leaves out."""
