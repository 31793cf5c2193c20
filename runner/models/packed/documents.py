"""The places of documents in a packed row, and which of their tokens see each other.

Letters in shapes: D documents, T tokens of all of them, L of the longest, N heads, H size of a head.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

import torch
from torch import Tensor

from iolaus.runner.models.packed.chosen_queries import Chosen

_WASTE = 1 << 12
"""Pairs of tokens that padding may add per head; another bucket takes about as long on a CPU."""


@dataclass(frozen=True)
class Padding:
    """The contents of the D * L places of documents of different lengths."""

    tokens: Tensor
    """[D * L], the token at each place; any for padding."""
    gaps: Tensor
    """The places of padding."""
    places: Tensor
    """The places of tokens."""
    unseen: Tensor
    """[D, 1, 1, L], added to the scores of keys: 0 for tokens, and for padding what makes their weight 0."""


@dataclass(frozen=True)
class Bucket:
    """Documents of similar lengths, computed as one batch [D, N, L, H]."""

    num_documents: int
    length: int
    start: int
    """The first token."""
    padding: Padding | None
    """None if the documents have one length and follow one another."""
    documents: tuple[tuple[int, int], ...]
    """The length and the first token of each."""

    def of_chosen(self, chosen: Chosen) -> "Bucket":
        """The bucket of the chosen tokens of the same documents, counted among the chosen ones."""
        ends = torch.tensor([(start, start + length) for length, start in self.documents])
        bounds = torch.searchsorted(chosen.positions, ends)
        return _bucket([(stop - start, start) for start, stop in bounds.tolist()])

    def padded(self, flat: Tensor) -> Tensor:
        """The bucket's part of [T, N, H] as [D, N, L, H], zeros for padding; a view where none is needed."""
        if self.padding is None:
            rows = flat.narrow(0, self.start, self.num_documents * self.length)
        else:
            rows = flat.index_select(0, self.padding.tokens).index_fill_(0, self.padding.gaps, 0)
        return rows.unflatten(0, (self.num_documents, self.length)).transpose(1, 2)

    def mask(self, before: int, behind: int, query: Tensor) -> Tensor | None:
        """A mask to add to scores [D, N, L, L], of a shape that broadcasts to theirs."""
        window = window_mask(self.length, before, behind, query)
        if self.padding is None or window is None:
            return window if self.padding is None else self.padding.unseen
        return self.padding.unseen + window

    def put(self, padded: Tensor, flat: Tensor) -> None:
        """Writes [D, N, L, H] to its places in [T, N, H], without the padding."""
        rows = padded.transpose(1, 2).flatten(0, 1)
        if self.padding is None:
            flat.narrow(0, self.start, len(rows)).copy_(rows)
        else:
            places = self.padding.places
            flat.index_copy_(0, self.padding.tokens[places], rows.index_select(0, places))


@lru_cache(maxsize=8)  # asked for by every layer
@torch.inference_mode(False)  # what an evaluation leaves here is used in training
def buckets(bounds: tuple[int, ...]) -> tuple[Bucket, ...]:
    """The documents between `bounds` in buckets with little padding, longest first."""
    sizes = [(stop - start, start) for start, stop in pairwise(bounds)]
    found: list[list[tuple[int, int]]] = []
    waste = 0
    for length, start in sorted((size for size in sizes if size[0]), key=lambda size: -size[0]):
        waste += found[-1][0][0] ** 2 - length**2 if found else 0
        if not found or waste > _WASTE:
            found.append([])
            waste = 0
        found[-1].append((length, start))
    return tuple(_bucket(some) for some in found)


def _bucket(documents: list[tuple[int, int]]) -> Bucket:
    """The bucket of documents as (length, first token)."""
    longest, first = max(length for length, _ in documents), documents[0][1]
    count = len(documents)
    if all(document == (longest, first + i * longest) for i, document in enumerate(documents)):
        return Bucket(count, longest, first, None, tuple(documents))
    lengths, starts = torch.tensor(documents).T[..., None]
    place = torch.arange(longest)
    real = place < lengths
    tokens = torch.where(real, starts + place, 0).flatten()
    places, gaps = (where.flatten().nonzero()[:, 0] for where in (real, ~real))
    # finite, for a place without a token may be too far from all others to see one
    unseen = torch.zeros(real.shape).masked_fill_(~real, torch.finfo(torch.float32).min / 2)
    return Bucket(
        count, longest, first, Padding(tokens, gaps, places, unseen[:, None, None]), tuple(documents)
    )


def padded_places(cu_seqlens: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """The token of a flat row at each place of rows of `longest` [D, L], 0 in gaps; and which places are gaps."""
    bounds = cu_seqlens.long()
    places = bounds[:-1, None] + torch.arange(longest, device=bounds.device)
    gaps = places >= bounds[1:, None]
    return places.where(~gaps, 0), gaps


def flat_places(cu_seqlens: Tensor, longest: int, num_tokens: int) -> Tensor:
    """The places [T] of the tokens of a packed row in rows of `longest`, counted row by row."""
    bounds, tokens = cu_seqlens.long(), torch.arange(num_tokens, device=cu_seqlens.device)
    owners = torch.searchsorted(bounds[1:].contiguous(), tokens, right=True)
    return tokens + owners * longest - bounds[owners]


def runs(cu_seqlens: Tensor) -> Iterator[tuple[int, int, int]]:
    """First token, the one after the last, and length of documents; neighbours of one length are together.

    Documents without a token, which fill up `cu_seqlens`, are left out.
    """
    for length, same in groupby(pairwise(cu_seqlens.tolist()), lambda bounds: bounds[1] - bounds[0]):
        neighbours = list(same)
        if length:
            yield neighbours[0][0], neighbours[-1][1], length


def documents(flat: Tensor, start: int, stop: int, length: int) -> Tensor:
    """Tokens `start` to `stop - 1` of [T, N, H] as documents [D, N, length, H], a view."""
    token, head, one = flat.stride()
    shape = ((stop - start) // length, flat.shape[1], length, flat.shape[2])
    return flat.as_strided(shape, (length * token, head, token, one), flat.storage_offset() + start * token)


def one_per_query_head(states: Tensor, query: Tensor) -> Tensor:
    """Keys or values [B, N or fewer, T, H] with as many heads as the queries [B, N, T, H]."""
    groups = query.shape[1] // states.shape[1]
    return states.repeat_interleave(groups, 1) if groups > 1 else states


def sees_all(length: int, before: int, behind: int) -> bool:
    """Whether tokens that see so many others before and behind them, -1 is all, see all of a document of a length."""
    return all(side < 0 or length <= side + 1 for side in (before, behind))


def window_mask(length: int, before: int, behind: int, query: Tensor) -> Tensor | None:
    """A mask to add to scores [length, length]: minus infinity for keys too far `before` or `behind` a query."""
    if sees_all(length, before, behind):
        return None
    size = 1 << (length - 1).bit_length()
    return _band(size, before, behind, query.dtype, query.device)[:length, :length]


@lru_cache(maxsize=4)
@torch.inference_mode(False)  # what an evaluation leaves here is used in training
def _band(length: int, before: int, behind: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    places = torch.arange(length, device=device)
    ahead = places - places[:, None]
    far = (before >= 0) & (-ahead > before) | (behind >= 0) & (ahead > behind)
    return torch.zeros(far.shape, dtype=dtype, device=device).masked_fill_(far, -torch.inf)
