"""Optimizers: `elementwise` and `matrixwise`."""

from tiryns.conf.optimizer import elementwise, matrixwise

__all__ = ["elementwise", "matrixwise"]
