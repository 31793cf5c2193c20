"""Data sets: text for pretraining, labelled rows, queries with passages, images with text, megatron-energon's."""

from iolaus.conf.data import energon, labelled, pretraining, retrieval, vision

__all__ = ["energon", "labelled", "pretraining", "retrieval", "vision"]
