"""Data sets: text for pretraining, labelled rows, images with text, data sets of megatron-energon."""

from iolaus.conf.data import energon, labelled, pretraining, vision

__all__ = ["energon", "labelled", "pretraining", "vision"]
