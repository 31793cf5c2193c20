"""Sweeps: which jobs `-m` makes, and where they run."""

from iolaus.conf.sweeps import launcher, sweeper

__all__ = ["launcher", "sweeper"]
