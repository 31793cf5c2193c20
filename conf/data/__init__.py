"""Data sets: text for pretraining, mixtures of it, labelled rows, pairs, ranking, retrieval, mteb, images, energon."""

from tiryns.conf.data import energon, labelled, mixture, pairs, pretraining, vision

__all__ = ["energon", "labelled", "mixture", "pairs", "pretraining", "vision"]
