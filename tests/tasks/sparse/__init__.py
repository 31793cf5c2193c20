"""Sparse vectors over the vocabulary."""
