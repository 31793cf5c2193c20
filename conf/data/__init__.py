"""Data sets: text for pretraining, labelled rows, queries with passages, mteb, images, energon."""

from iolaus.conf.data import energon, labelled, mteb, pretraining, retrieval, vision

__all__ = ["energon", "labelled", "mteb", "pretraining", "retrieval", "vision"]
