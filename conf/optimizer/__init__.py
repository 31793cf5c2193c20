"""Optimizers: those that treat each weight by itself, and those that treat a matrix as one."""

from iolaus.conf.optimizer import elementwise, matrixwise

__all__ = ["elementwise", "matrixwise"]
