"""Tests of `tiryns ladder`."""
