"""Data sets: text for pretraining, mixtures of it, labelled rows, pairs, ranking, retrieval, mteb, images, energon."""

from tiryns.conf.data import energon, labelled, mixture, mteb, pairs, pretraining, ranking, retrieval, vision

__all__ = ["energon", "labelled", "mixture", "mteb", "pairs", "pretraining", "ranking", "retrieval", "vision"]
