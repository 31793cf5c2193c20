"""The positions of documents in a packed row, which of their tokens see each other, and documents as padded batches.

Rows [H] of one head are gathered into batches and put back in one pass, instead of a copy and a transposition.
Letters in shapes: D documents, T tokens of all of them, L of the longest, N heads, H size of a head; R positions of all
heads in all buckets.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Chosen:
    """The queries of an attention whose results are used, so that a CPU leaves out the others.

    Their positions [M] in a packed row [T] are in ascending order. If one is repeated, its gradient must be 0.

    Example:
        >>> chosen = Chosen(torch.tensor([1, 4, 5]))
        >>> chosen.counts(torch.tensor([0, 3, 4, 8]))
        [1, 0, 2]
    """

    def __init__(self, positions: Tensor) -> None:
        self.positions = positions

    @cached_property
    def usable(self) -> bool:
        """Whether there are positions and they are in ascending order."""
        return len(self.positions) > 0 and bool((self.positions.diff() >= 0).all())

    def counts(self, bounds: Tensor) -> list[int]:
        """Returns how many of the positions lie in each document between `bounds` [D + 1]."""
        return torch.searchsorted(self.positions, bounds.long()).diff().tolist()


@contextmanager
def choose(attention: nn.Module | None, positions: Tensor | None) -> Iterator[None]:
    """In the block, limits an attention module to the queries at `positions` [M]; no effect for None, or on a GPU."""
    if attention is None or positions is None or positions.device.type != "cpu":
        yield
        return
    attention.__dict__["chosen_queries"] = Chosen(positions)
    try:
        yield
    finally:
        del attention.__dict__["chosen_queries"]


def chosen_queries(attention: nn.Module) -> Chosen | None:
    """Returns the queries to which the attention of this module is limited; None for all, as in compiled code."""
    if torch.compiler.is_compiling():
        return None
    selection: Chosen | None = vars(attention).get("chosen_queries")
    return selection if selection is not None and selection.usable else None


_WASTE = 1 << 12
"""Pairs of tokens per head that padding may add to a bucket; on a CPU they cost about as much as another bucket."""

Documents = list[tuple[int, int]]
"""The length and the first token of each document."""


def padded_places(cu_seqlens: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Returns where tokens of padded rows are in the flat row: indices [D, L] (0 for padding); and a mask of padding."""
    bounds = cu_seqlens.long()
    places = bounds[:-1, None] + torch.arange(longest, device=bounds.device)
    gaps = places >= bounds[1:, None]
    return places.where(~gaps, 0), gaps


def flat_places(cu_seqlens: Tensor, longest: int, num_tokens: int) -> Tensor:
    """Returns where the tokens of a packed row are in rows padded to `longest`: positions [T], counted row by row."""
    bounds, tokens = cu_seqlens.long(), torch.arange(num_tokens, device=cu_seqlens.device)
    owners = torch.searchsorted(bounds[1:].contiguous(), tokens, right=True)
    return tokens + owners * longest - bounds[owners]


def runs(cu_seqlens: Tensor) -> Iterator[tuple[int, int, int]]:
    """Yields first token and end of each run of neighbouring documents of equal length, and the length of one document.

    Documents without a token, which fill up `cu_seqlens`, are left out.
    """
    for length, same in groupby(pairwise(cu_seqlens.tolist()), lambda bounds: bounds[1] - bounds[0]):
        neighbours = list(same)
        if length:
            yield neighbours[0][0], neighbours[-1][1], length


def documents(flat: Tensor, start: int, stop: int, length: int) -> Tensor:
    """Returns tokens `start` to `stop - 1` of [T, N, H] as documents [D, N, length, H], a view."""
    token, head, one = flat.stride()
    shape = ((stop - start) // length, flat.shape[1], length, flat.shape[2])
    return flat.as_strided(shape, (length * token, head, token, one), flat.storage_offset() + start * token)


def one_per_query_head(states: Tensor, query: Tensor) -> Tensor:
    """Repeats keys or values [B, N or fewer, T, H] to the number of heads of the queries [B, N, T, H]."""
    groups = query.shape[1] // states.shape[1]
    return states.repeat_interleave(groups, 1) if groups > 1 else states


def sees_all(length: int, before: int, behind: int) -> bool:
    """Whether a window of `before` and `behind` tokens around each token (-1: all) covers a document of `length`."""
    return all(side < 0 or length <= side + 1 for side in (before, behind))


def window_mask(length: int, before: int, behind: int, query: Tensor) -> Tensor | None:
    """Returns a mask to add to scores [length, length]: minus infinity for keys too far `before` or `behind` a query."""
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


class Options(NamedTuple):
    """How the tokens of a document see each other."""

    sides: tuple[int, int]
    """How many tokens before and after itself a token sees; -1 for all."""
    scale: float
    dropout: float = 0.0
    bias_of: Callable[[Tensor, Tensor], Tensor] | None = None
    """Maps queries and keys [D, N, T, H] to an addend of their scores, [D or 1, N, T, T]."""
    keys: Tensor | None = None
    """The dropout keys [T] of the queries; None for the current keys of the module."""

    def mask(self, query: Tensor, key: Tensor) -> Tensor | None:
        """Returns the mask to add to the scores of documents of one length, in a shape that broadcasts."""
        window = window_mask(query.shape[2], *self.sides, query)
        if self.bias_of is None:
            return window
        scores = self.bias_of(query, key)
        return scores if window is None else scores + window


class Bucket(NamedTuple):
    """Documents of similar lengths, computed as one batch [D * N, L, H]."""

    shape: tuple[int, int]
    """D * N, and L."""
    tokens: Tensor
    """[D, L], the token at each position; for padding a token of the same document."""
    sources: Tensor
    """[D * N * L], the row in [T * N, H] of each position of each head."""
    gaps: Tensor
    """The positions of padding, of each head."""
    unseen: Tensor | None
    """[D, 1, 1, L], added to the scores of keys: 0 for tokens, for padding a number that makes the weight 0; None without
    padding."""
    first: int
    """The index of the bucket's first position among the R positions of all buckets."""

    def pad(self, flat: Tensor) -> Tensor:
        """Returns the bucket's part of [T, N, H] as [D * N, L, H]; padding repeats tokens."""
        rows = flat.reshape(-1, flat.shape[-1]).index_select(0, self.sources)
        return rows.view(*self.shape, flat.shape[-1])

    def pad_with_zeros(self, flat: Tensor) -> Tensor:
        """As `pad`, but with zeros for padding."""
        rows = self.pad(flat)
        rows.view(-1, flat.shape[-1]).index_fill_(0, self.gaps, 0)
        return rows

    def part(self, places: Tensor) -> Tensor:
        """Returns the bucket's part [D * N, L, H] of [R, H], a view."""
        mine = places.narrow(0, self.first, len(self.sources))
        return mine.view(*self.shape, places.shape[-1])

    def mask(self, sides: tuple[int, int], query: Tensor) -> Tensor | None:
        """Returns a mask to add to scores [D, N, L, L], in a shape that broadcasts."""
        window = window_mask(self.shape[1], *sides, query)
        if self.unseen is None:
            return window
        return self.unseen if window is None else self.unseen + window


class Buckets(NamedTuple):
    """All documents of a packed row, in buckets."""

    groups: list[Documents]
    """The documents of each bucket."""
    parts: tuple[Bucket, ...]
    places: Tensor
    """[T * N], the position of each token of each head among the R of all buckets."""

    def empty(self, like: Tensor) -> Tensor:
        """Returns uninitialised memory [R, H] for the buckets' results, with H, dtype and device of `like` [T, N, H]."""
        return like.new_empty((sum(len(part.sources) for part in self.parts), like.shape[-1]))

    def flat(self, results: Tensor, num_heads: int) -> Tensor:
        """Returns the results of the buckets, [R, H], as [T, N, H]."""
        return results.index_select(0, self.places).view(-1, num_heads, results.shape[-1])

    def of_chosen(self, chosen: Chosen, num_heads: int) -> "Buckets":
        """Returns the same buckets with only the chosen tokens of each document; indices count chosen tokens."""
        groups = []
        for documents in self.groups:
            ends = torch.tensor([(start, start + length) for length, start in documents])
            bounds = torch.searchsorted(chosen.positions, ends).tolist()
            groups.append([(stop - start, start) for start, stop in bounds])
        return _make_buckets(groups, num_heads)


@lru_cache(maxsize=8)  # asked for by every layer
@torch.inference_mode(False)  # what an evaluation leaves here is used in training
def buckets(bounds: tuple[int, ...], num_heads: int) -> Buckets:
    """Returns the documents between `bounds` in buckets with little padding, longest first.

    Example:
        >>> row = torch.arange(6.0)[:, None, None]
        >>> both = buckets((0, 2, 6), 1)
        >>> [part.pad(row).flatten(1).tolist() for part in both.parts]
        [[[2.0, 3.0, 4.0, 5.0], [0.0, 1.0, 1.0, 1.0]]]
    """
    sizes = [(stop - start, start) for start, stop in pairwise(bounds) if stop > start]
    groups: list[Documents] = []
    waste = 0
    for length, start in sorted(sizes, key=lambda size: -size[0]):
        waste += groups[-1][0][0] ** 2 - length**2 if groups else 0
        if not groups or waste > _WASTE:
            groups.append([])
            waste = 0
        groups[-1].append((length, start))
    return _make_buckets(groups, num_heads)


def _make_buckets(groups: list[Documents], num_heads: int) -> Buckets:
    parts, first = [], 0
    num_tokens = sum(length for documents in groups for length, _ in documents)
    places = torch.empty(num_tokens * num_heads, dtype=torch.int64)
    heads = torch.arange(num_heads)[:, None]
    for documents in groups:
        lengths, starts = torch.tensor(documents).T[..., None]
        longest = int(lengths.max())
        place = torch.arange(longest)
        tokens = starts + torch.minimum(place, (lengths - 1).clamp(min=0))
        tokens = tokens.clamp(max=max(num_tokens - 1, 0))  # of a document without any
        real = place < lengths
        sources = (tokens[:, None] * num_heads + heads).flatten()
        of_heads = real[:, None].expand(-1, num_heads, -1).flatten()
        mine = of_heads.nonzero()[:, 0]
        places[sources[mine]] = mine + first
        # finite, for a place without a token may be too far from all others to see one
        unseen = torch.zeros(real.shape).masked_fill_(~real, torch.finfo(torch.float32).min / 2)
        shape = (len(documents) * num_heads, longest)
        gaps, mask = (~of_heads).nonzero()[:, 0], None if real.all() else unseen[:, None, None]
        parts.append(Bucket(shape, tokens, sources, gaps, mask, first))
        first += len(sources)
    return Buckets(groups, tuple(parts), places)
