"""Which documents an encoder reads causally: each token then attends only to itself and the tokens before it.

The attention functions of this folder ask the module that calls them (`causal_of`), so one model can read both ways.
Letters in shapes: D documents, T tokens of a row, N tokens of a part, B rows.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from lightning_utilities.core.apply_func import apply_to_collection
from numpy.typing import NDArray
from torch import Tensor, nn

from tiryns.runner.order.ranges import ranges

Causal = Any
"""Documents read causally: all (True), none (False), a bool mask [D] of padded rows, or the parts of a packed row."""

_NAME = "reading_direction"


class Direction:
    """The reading direction of an encoder's modules; `causal` holds for the next pass, and for its backward pass.

    Example:
        >>> encoder = nn.Sequential(nn.Linear(2, 2))
        >>> direction = Direction(encoder)
        >>> direction.causal = True
        >>> causal_of(encoder[0]), causal_of(nn.Linear(2, 2))
        (True, None)
    """

    def __init__(self, encoder: nn.Module, causal: Causal = False) -> None:
        self.causal = causal
        for module in encoder.modules():
            setattr(module, _NAME, self)


def causal_of(module: nn.Module) -> Causal | None:
    """Returns which documents a module's encoder reads causally; None if it has no `Direction` and reads as usual."""
    direction = getattr(module, _NAME, None)
    return None if direction is None else direction.causal


def causal_mask(causal: Causal, mask: Tensor | None, query: Tensor) -> tuple[Tensor | None, bool]:
    """Returns the mask [B, 1, T, T] of padded rows for queries [B, H, T, E], and whether attention adds a causal mask.

    A bool `mask` is True where a key is seen; a float `mask` is added to the scores.
    """
    if causal is False or (causal is True and mask is None):
        return mask, causal
    length = query.shape[2]
    seen = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    if causal is not True:
        seen = seen | ~causal[:, None, None, None]
    if mask is None:
        return seen, False
    if mask.dtype == torch.bool:
        return mask & seen, False
    return mask.masked_fill(~seen, torch.finfo(mask.dtype).min), False


def causal_parts(lengths: NDArray[np.int64], causal: NDArray[np.bool_], packed: bool) -> Causal:
    """Returns which documents of `lengths` [D] are causal: a bool if all are alike, else a bool tensor for padded rows.

    For a packed row it returns a dict: the part that is read `both` ways and the `causal` part, each with its `tokens`
    int64 [N] in the row, `cu_seqlens` int32 and `max_length`; `rows`, bool [D], marks the causal documents.

    Example:
        >>> parts = causal_parts(np.array([2, 3, 1]), np.array([False, True, False]), packed=True)
        >>> parts["both"]["tokens"].tolist(), parts["both"]["cu_seqlens"].tolist(), parts["causal"]["max_length"]
        ([0, 1, 5], [0, 2, 3], 3)
    """
    if causal.all() or not causal.any():
        return bool(causal.all())
    if not packed:
        return torch.from_numpy(causal)
    starts = np.cumsum(lengths) - lengths

    def part(mask: NDArray[np.bool_]) -> dict[str, Any]:
        mine = lengths[mask]
        return {
            "tokens": torch.from_numpy(ranges(starts[mask], mine)),
            "cu_seqlens": torch.from_numpy(np.concatenate([[0], np.cumsum(mine)]).astype(np.int32)),
            "max_length": int(mine.max()),
        }

    return {"rows": torch.from_numpy(causal), "both": part(~causal), "causal": part(causal)}


def first_documents(causal: Causal, lengths: Iterable[int], packed: bool) -> Causal:
    """Returns `causal` limited to the first documents, which have these `lengths`."""
    if isinstance(causal, bool):
        return causal
    sizes = np.array(list(lengths), dtype=np.int64)
    if not packed:
        return causal[: len(sizes)]
    rows = causal["rows"][: len(sizes)]
    parts = causal_parts(sizes, rows.cpu().numpy(), packed)
    return apply_to_collection(parts, Tensor, lambda part: part.to(rows.device))
