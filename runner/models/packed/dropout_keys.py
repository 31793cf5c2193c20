"""Dropout by a key of each element, so that it does not depend on how a global batch is cut into micro-batches.

An element's 16 bits are a hash (SplitMix64) of (seed, step, sample, position, module and its call, feature). The bits of
an attention weight hash (seed, step, sample, position of the query, module and its call, head, position of the key).
Letters in shapes: D documents (samples), P places of tokens in the micro-batch, L of the longest document, N heads.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tiryns.runner.data.micro_batch import MicroBatch

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MULTIPLIERS = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))
_BLOCK = 1 << 17
"""Words of 64 bits mixed at a time: 1 MiB of them and 1 MiB of scratch."""
_CALLS = 1 << 16
"""Number of calls of one module in a pass after which random bits repeat."""


def mix64(x: Tensor) -> Tensor:
    """Applies SplitMix64's finaliser to contiguous int64 in place; clears the sign bits that torch shifts in."""
    scratch = torch.empty_like(x)
    for shift, multiplier in ((30, _MULTIPLIERS[0]), (27, _MULTIPLIERS[1]), (31, None)):
        torch.bitwise_right_shift(x, shift, out=scratch)
        x.bitwise_xor_(scratch.bitwise_and_((1 << 64 - shift) - 1))
        if multiplier is not None:
            x.mul_(multiplier)
    return x


def bits(keys: Tensor, count: int) -> Tensor:
    """Returns 16 random bits for each of `count` elements per key, from int64 keys [...]; a view int16 [..., count]."""
    words = -(-count // 4)
    counters = torch.arange(1, words + 1, device=keys.device).mul_(_GOLDEN)
    flat, hashes = keys.reshape(-1, 1), keys.new_empty((keys.numel(), words))
    step = max(1, _BLOCK // words)
    for start in range(0, len(flat), step):
        block = hashes[start : start + step]
        mix64(torch.add(flat[start : start + step], counters, out=block))
    return hashes.view(torch.int16)[:, :count].unflatten(0, keys.shape)


def bits_drawn(shape: torch.Size) -> Tensor:
    """Returns 16 random bits per element, int16 of this `shape`, from torch's generator: four elements per int64."""
    count = shape.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), 2**63 - 1)
    return words.view(torch.int16)[:count].view(shape)


class DropoutKeys:
    """The keys of a micro-batch's tokens, and how often each module has been called on them."""

    def __init__(self, micro_batch: MicroBatch, seed: int) -> None:
        """Takes the step's seed, the same on all ranks; `sample_keys` of the micro-batch are int64 [D]."""
        self._micro_batch, self._seed = micro_batch, seed
        is_packed, shape = "cu_seqlens" in micro_batch, micro_batch["input_ids"].shape
        self._shape = torch.Size((1, shape[-1])) if is_packed else shape
        self.chosen: Tensor | None = None
        """Positions [M] of the tokens that the last layer computes; None for all."""
        self.computing_again = False
        """Whether calls are recomputations in the backward pass, which come in reverse order."""
        self._calls: Counter[int] = Counter()
        self._in_pieces = False

    @contextmanager
    def piece(self, positions: Tensor) -> Iterator[None]:
        """In the block, modules use the keys of the tokens at `positions` [M], a piece of a call with more tokens."""
        self.chosen, self._in_pieces = positions, True
        try:
            yield
        finally:
            self.chosen, self._in_pieces = None, False

    @cached_property
    def tokens(self) -> Tensor:
        """Returns the keys of tokens [P], computed on first use, as many models have no dropout."""
        keys = self._micro_batch["sample_keys"]
        samples = mix64(keys + self._seed)
        num_rows, length = self._shape
        if "cu_seqlens" in self._micro_batch:
            places = torch.arange(length, device=keys.device)
            bounds = self._micro_batch["cu_seqlens"].long()
            owners = torch.searchsorted(bounds[1:].contiguous(), places, right=True)
            samples, places = samples[owners], places - bounds[owners]
        else:
            samples = samples.repeat_interleave(length)
            places = torch.arange(length, device=keys.device).repeat(num_rows)
        return mix64(samples + (places + 1) * _GOLDEN)

    @property
    def samples(self) -> Tensor:
        """Returns the keys of samples [D]; a sample has the key of its first token."""
        if "cu_seqlens" in self._micro_batch:
            return self.tokens[self._micro_batch["cu_seqlens"][:-1].long()]
        return self.tokens.view(self._shape)[:, 0]

    @property
    def lengths(self) -> Tensor:
        """Returns, for each token [P], how many tokens its sample has without padding."""
        if "cu_seqlens" in self._micro_batch:
            lengths = self._micro_batch["cu_seqlens"].long().diff()
            return lengths.repeat_interleave(lengths, output_size=self._shape[-1])
        return self._micro_batch["attention_mask"].sum(1).repeat_interleave(self._shape[1])

    def of_elements(self, module: nn.Module, shape: torch.Size) -> Tensor | None:
        """Returns bits for hidden states [..., H] of all tokens, chosen tokens or samples, or for attention weights
        [D, N, L, L]; None for another shape, for which the caller draws bits.

        A module with `shared_by_rows` drops the same elements for all samples of the step: they share its input.
        """
        if getattr(module, "shared_by_rows", False):
            rows = torch.arange(shape[:-1].numel(), device=self._micro_batch["input_ids"].device)
            keys = mix64(rows.mul_(_GOLDEN).add_(self._seed))
            return bits(self._salt(keys, module), shape[-1]).unflatten(0, shape[:-1])
        if len(shape) == 4 and (shape[0], shape[2], shape[3]) == (*self._shape, self._shape[1]):
            return self.of_weights(self.of_queries(module).view(self._shape), shape[1], shape[3])
        count = shape[:-1].numel()
        of_tokens = self.tokens if self.chosen is None else self.tokens[self.chosen]
        if count == len(of_tokens):
            keys = of_tokens
        elif count == len(self._micro_batch["sample_keys"]):
            keys = self.samples
        else:
            return None
        return bits(self._salt(keys, module), shape[-1]).unflatten(0, shape[:-1])

    def of_queries(self, module: nn.Module) -> Tensor:
        """Returns the keys [P] that the tokens have as queries in this call of an attention module."""
        return self._salt(self.tokens, module)

    def fits(self, query: Tensor) -> bool:
        """Whether queries [D, N, L, H] have the shape of the micro-batch's rows."""
        return (query.shape[0], query.shape[2]) == tuple(self._shape)

    @staticmethod
    def of_weights(queries: Tensor, num_heads: int, num_keys: int) -> Tensor:
        """Returns bits [D, N, L, num_keys] for the attention weights of queries with dropout keys [D, L]."""
        heads = torch.arange(1, num_heads + 1, device=queries.device).mul_(_GOLDEN)
        return bits(mix64(queries[:, None] + heads[:, None]), num_keys)

    def _salt(self, keys: Tensor, module: nn.Module) -> Tensor:
        salt = getattr(module, "dropout_salt", 0) * _CALLS + self._call(id(module))
        offset = (salt + 1) * _GOLDEN % (1 << 64)
        return mix64(keys + (offset - (offset >> 63 << 64)))

    def _call(self, module: int) -> int:
        """Returns the number of this call of the module, counted from 0."""
        if self._in_pieces:
            return 0
        if self.computing_again:
            self._calls[module] -= 1
            return self._calls[module] % _CALLS
        self._calls[module] += 1
        return (self._calls[module] - 1) % _CALLS


_current: DropoutKeys | None = None


def current_keys() -> DropoutKeys | None:
    """Returns the current dropout keys; None if dropout draws from torch's generator."""
    return _current


@contextmanager
def dropout_keys(micro_batch: MicroBatch, seed: int) -> Iterator[DropoutKeys | None]:
    """In the block, computes dropout from the step's seed and `sample_keys`, if the micro-batch has these keys."""
    global _current
    _current = DropoutKeys(micro_batch, seed) if "sample_keys" in micro_batch else None
    try:
        yield _current
    finally:
        _current = None


def number_modules(model: nn.Module) -> None:
    """Gives each module a number, so that modules drop different elements."""
    for number, module in enumerate(model.modules()):
        module.dropout_salt = number  # type: ignore[assignment]


def add_embedding_noise(pretrained: PreTrainedModel, alpha: float) -> None:
    """Adds noise in [-r, r], r = alpha / sqrt(tokens of the sample * H), to embeddings in training (NEFTune).

    Like dropout, the noise depends on (seed, step, sample, position, feature). Padding is not counted (arXiv 2310.05914).
    """
    pretrained.get_input_embeddings().register_forward_hook(partial(_noisy, alpha))


@torch.compiler.disable
def _noisy(alpha: float, module: nn.Module, _: object, embeddings: Tensor) -> Tensor:
    """Returns embeddings [..., H] of all tokens with the noise of the current keys, if any."""
    keys = current_keys()
    if keys is None or not module.training:
        return embeddings
    random_bits = keys.of_elements(module, embeddings.shape)
    assert random_bits is not None, "the embeddings are those of the micro-batch's tokens"
    noise = (random_bits.to(torch.float32) + 0.5) / (1 << 15)
    radius = alpha * (keys.lengths * embeddings.shape[-1]).clamp(min=1).rsqrt()
    return embeddings + (noise * radius.view(*embeddings.shape[:-1], 1)).to(embeddings.dtype)
