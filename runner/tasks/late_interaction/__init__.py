"""Late interaction: each text becomes a vector for each of its tokens (ColBERT, arXiv 2004.12832 and 2112.01488).

- `similarity`: MaxSim, which scores the token vectors of a query against those of a passage.
- `collator`: pairs of texts, whose queries may be filled up with mask tokens.
- `model`: token vectors of an encoder's hidden states, and the exported folder.
- `task`: the task; its figures are those of single vectors, by MaxSim.

Settings: `conf/objective/contrastive.py`.
"""

from tiryns.runner.tasks.late_interaction.collator import LateInteractionCollator
from tiryns.runner.tasks.late_interaction.task import LateInteraction

__all__ = ["LateInteraction", "LateInteractionCollator"]
