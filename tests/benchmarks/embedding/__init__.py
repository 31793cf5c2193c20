"""Measurements of whole steps and runs, beside peers."""
