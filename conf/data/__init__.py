"""Data sets: text for pretraining, mixtures of it, labelled rows, pairs, ranking, retrieval, mteb, images, energon."""

from tiryns.conf.data import labelled, pairs, pretraining, vision

__all__ = ["labelled", "pairs", "pretraining", "vision"]
