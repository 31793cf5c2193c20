"""Data sets: text for pretraining, mixtures of it, labelled rows, pairs, queries with passages, mteb, images, energon."""

from tiryns.conf.data import energon, labelled, mixture, mteb, pairs, pretraining, retrieval, vision

__all__ = ["energon", "labelled", "mixture", "mteb", "pairs", "pretraining", "retrieval", "vision"]
