"""One vector for each document: the first token's hidden state, or the mean or maximum over all of its tokens.

Letters in shapes: D documents, T tokens, H hidden.
"""

import torch
from torch import Tensor

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed.rows import unpacked
from tiryns.runner.widening import widen


def pool(hidden: Tensor, micro_batch: MicroBatch, how: str) -> Tensor:
    """Returns vectors [D, H] of hidden states [D, T, H] of padded rows, or [1, T, H] of a packed row, in their dtype.

    `how` is `cls`, `mean` or `max`, by the formulas of sentence-transformers: a mean is summed in fp32 or wider. A
    document's vector depends neither on the layout nor on how far its row is padded.

    Example:
        >>> hidden = torch.tensor([[[1.0], [5.0], [9.0]]])
        >>> padded: MicroBatch = {"attention_mask": torch.tensor([[1, 1, 0]])}
        >>> [pool(hidden, padded, how).item() for how in ("cls", "mean", "max")]
        [1.0, 3.0, 5.0]
        >>> packed: MicroBatch = {"cu_seqlens": torch.tensor([0, 2, 3]), "max_length": 2}
        >>> pool(hidden, packed, "mean").tolist()
        [[3.0], [9.0]]
    """
    is_packed = "cu_seqlens" in micro_batch
    if how == "cls":
        return hidden[0, micro_batch["cu_seqlens"][:-1].long()] if is_packed else hidden[:, 0]
    if is_packed:
        mask = unpacked(hidden.new_ones(hidden.shape[:2], dtype=torch.bool), micro_batch, False)
        hidden = unpacked(hidden, micro_batch, 0.0)
    else:
        mask = micro_batch["attention_mask"].bool()
    if how == "max":
        return hidden.masked_fill(~mask[..., None], -torch.inf).amax(1)
    if how != "mean":
        raise ValueError(f"pooling={how} is not known: expected cls, mean or max")
    total = widen(hidden).masked_fill(~mask[..., None], 0.0).sum(1)
    return (total / mask.sum(1, keepdim=True)).to(hidden.dtype)
