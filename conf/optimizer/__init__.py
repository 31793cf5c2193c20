"""Optimizers: `elementwise` and `matrixwise`."""

from iolaus.conf.optimizer import elementwise, matrixwise

__all__ = ["elementwise", "matrixwise"]
