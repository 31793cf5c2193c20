"""The task model of late interaction.

Letters in shapes: X texts of a micro-batch, L tokens of the longest text there may be, H hidden, E width of a token's
vector.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.utils import cached_file

from tiryns.conf.objective import contrastive as conf
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.embedding.contrastive import PairsModel, leave_out_pooler, loaded_without_pooler
from tiryns.runner.models.embedding.folder import ABSENT, write_modules
from tiryns.runner.models.packed.rows import unpacked
from tiryns.runner.widening import widened

PROJECTION = "1_Dense/model.safetensors"
"""The weights of the projection in an exported folder, below the name `linear.weight`."""

NOTE = """
## Vectors of tokens

A query's tokens each find the nearest token of a passage (MaxSim):

```python
from sentence_transformers import MultiVectorEncoder

model = MultiVectorEncoder("<this folder>")
scores = model.similarity(model.encode_query(["a query"]), model.encode_document(["a passage", "another one"]))
```
"""


class LateInteractionModel(PairsModel):
    """ColBERT (arXiv 2004.12832): a vector of unit length for each token, by a linear layer without a bias.

    A text is [L, E], whose rows are 0 behind its last token, and for tokens that are left out.
    """

    note = NOTE
    unshardable = "the projection of objective=late_interaction is exported beside the encoder"
    options: conf.LateInteraction

    def __init__(self, pretrained: PreTrainedModel, *parts: Any, skipped: Mapping[str, int]) -> None:
        """As `PairsModel`, with the projection of the folder that the encoder comes from, else a new one.

        `skipped` are tokens that are left out of passages. Raises ValueError for a folder with another width.
        """
        super().__init__(pretrained, *parts)
        leave_out_pooler(pretrained.base_model)
        self.skipped, width = dict(skipped), self.options.token_dimensions
        self.projection = nn.Linear(pretrained.config.get_text_config().hidden_size, width, bias=False)
        name = pretrained.name_or_path  # a folder, or a repository of the hub
        if not name or (file := cached_file(name, PROJECTION, **ABSENT)) is None:
            return
        weight = load_file(file)["linear.weight"]
        if weight.shape != self.projection.weight.shape:
            raise ValueError(
                f"objective.token_dimensions={width}: the projection of {name!r} gives tokens "
                f"{len(weight)} dimensions"
            )
        self.projection.load_state_dict({"weight": weight})

    def vectors_of(self, micro_batch: MicroBatch) -> Tensor:
        """The vectors of the tokens of each text [X, L, E]."""
        hidden, ids = self.pretrained.base_model(**self.arguments(micro_batch))[0], micro_batch["input_ids"]
        if "cu_seqlens" in micro_batch:
            there = unpacked(torch.ones_like(ids), micro_batch, 0).bool()
            hidden, ids = unpacked(hidden, micro_batch, 0.0), unpacked(ids, micro_batch, 0)
        else:
            there = micro_batch["attention_mask"].bool()
        skipped = torch.tensor([*self.skipped.values()], dtype=ids.dtype, device=ids.device)
        there = there & ~(torch.isin(ids, skipped) & (micro_batch["text_columns"] > 0)[:, None])
        vectors = functional.normalize(widened(self.projection(hidden)), dim=-1) * there[..., None]
        longest = max(self.texts.max_length or 0, self.options.query_expansion or 0)
        return functional.pad(vectors, (0, 0, 0, longest - vectors.shape[1]))

    def export_beside(self, folder: Path) -> list[Path]:
        """Makes the folder one of sentence-transformers' MultiVectorEncoder."""
        tokens = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
        weight = self.projection.weight.detach().cpu().contiguous()
        dense = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": False}
        expansion = {"strategy": "min", "attend": True, "length": self.options.query_expansion}
        transformer = {"query_expansion": expansion} if self.options.query_expansion else {}
        modules: dict[str, Mapping[str, object]] = {
            "base.modules.transformer.Transformer": transformer,
            "base.modules.dense.Dense": {
                **dense,
                **tokens,
                "activation_function": "torch.nn.modules.linear.Identity",
            },
            "multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask": {
                "skiplist_words": [*self.skipped],
                "skiplist_tasks": ["document"],
                "keep_only_token_ids": None,
            },
            "base.modules.normalize.Normalize": tokens,
        }
        arguments = loaded_without_pooler(self.pretrained.base_model)
        write_modules(folder, "MultiVectorEncoder", modules, self.texts, arguments)
        save_file({"linear.weight": weight}, folder / PROJECTION)
        return []
