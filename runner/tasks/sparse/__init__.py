"""Sparse vectors: each text becomes weights of the tokens of the vocabulary (SPLADE, arXiv 2109.10086).

- `collator`: pairs of texts with the scale of the regulariser, which grows over the first steps.
- `model`: vectors of a masked language model's logits, the FLOPS regulariser, and the exported folder.
- `task`: the task, and the figures of an evaluated set: ranks by dot product, and how sparse vectors are.

Settings: `conf/objective/contrastive.py`.
"""

from tiryns.runner.tasks.sparse.collator import SparseCollator
from tiryns.runner.tasks.sparse.task import Sparse

__all__ = ["Sparse", "SparseCollator"]
