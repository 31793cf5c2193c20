"""Late interaction: each text becomes a vector for each of its tokens (ColBERT, arXiv 2004.12832 and 2112.01488).

- `model`: token vectors of an encoder's hidden states, and the exported folder.
- `task`: the task, whose queries may be filled up with mask tokens; its figures are those of
  single vectors, by MaxSim, which scores the token vectors of a query against those of a passage.

Settings: `conf/objective/contrastive.py`.
"""

from tiryns.runner.tasks.late_interaction.task import LateInteraction, LateInteractionCollator

__all__ = ["LateInteraction", "LateInteractionCollator"]
