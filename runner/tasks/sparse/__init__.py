"""Sparse vectors: each text becomes weights of the tokens of the vocabulary (SPLADE, arXiv 2109.10086).

- `model`: vectors of a masked language model's logits, the FLOPS regulariser, and the exported folder.
- `task`: the task, whose pairs of texts have the scale of the regulariser, which grows over the first steps, and the
  figures of an evaluated set: ranks by dot product, and how sparse vectors are.

Settings: `conf/objective/contrastive.py`.
"""

from tiryns.runner.tasks.sparse.task import Sparse, SparseCollator

__all__ = ["Sparse", "SparseCollator"]
