"""Sweeps: which jobs `-m` makes, and where they run."""

from tiryns.conf.sweeps import launcher, sweeper

__all__ = ["launcher", "sweeper"]
