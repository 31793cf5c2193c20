"""Digests of tensors: equal for equal bits, on any device, in one pass over the memory."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

CHUNK = 1 << 18
"""Number of eight-byte words that are hashed together, few enough for a CPU cache; the digest depends on this number."""

SMALL = 1 << 15
"""Tensors of at most this many bytes are read whole, which is faster than to hash them; the digest depends on it."""

ODD = 0x9E3779B97F4A7C15 - (1 << 64)
"""The multiplier of Fibonacci hashing: consecutive places get weights far apart."""


@torch.no_grad()
def tensor_digest(tensor: Tensor) -> Tensor:
    """Returns a 64-bit hash of the tensor's bits and their positions, int64 [], on its device; strides do not matter.

    Different tensors get the same number by accident once in 2**64; the hash is not secure against intent.

    Example:
        >>> tensor_digest(torch.zeros(3)) == tensor_digest(torch.zeros(3))
        tensor(True)
        >>> tensor_digest(torch.tensor([1.0, 2.0])) == tensor_digest(torch.tensor([2.0, 1.0]))
        tensor(False)
    """
    octets = _octets(tensor)
    num_octets = octets.numel()
    if num_octets % 8:
        octets = torch.nn.functional.pad(octets, (0, -num_octets % 8))
    elif octets.storage_offset() % 8:
        octets = octets.clone()
    words = octets.view(torch.int64)
    size = min(CHUNK, max(words.numel(), 1))
    places = _places(words.device)[:size]
    products, shifts = torch.empty_like(places), torch.empty_like(places)
    total = torch.full((), num_octets, device=words.device, dtype=torch.int64)
    for start in range(0, words.numel(), size):
        part = words[start : start + size]
        a, b = products[: part.numel()], shifts[: part.numel()]
        torch.bitwise_xor(part, places[: part.numel()], out=a)
        torch.bitwise_right_shift(a.mul_(ODD), 29, out=b)
        total = total * ODD + a.bitwise_xor_(b).sum()
    return total


@lru_cache(2)
def _places(device: torch.device) -> Tensor:
    return torch.arange(1, CHUNK + 1, device=device, dtype=torch.int64) * ODD


@torch.no_grad()
def state_digest(state: object) -> str:
    """Returns sixteen hex digits for all tensors and plain values in nested dicts, lists and tuples, by their names.

    Of a sharded tensor, only the shard of this rank is hashed.
    """
    leaves = [
        (name, value.to_local() if isinstance(value, DTensor) else value)
        for name, value in _leaves(state, "")
    ]
    contents = iter(_contents([value for _, value in leaves if isinstance(value, Tensor)]))
    digest = blake2b(digest_size=8)
    for name, value in leaves:
        if isinstance(value, Tensor):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(next(contents))
        else:
            plain = value is None or isinstance(value, bool | int | float | str)
            digest.update(f"{name} {repr(value) if plain else type(value).__name__}\n".encode())
    return digest.hexdigest()


def _contents(tensors: list[Tensor]) -> list[bytes]:
    """Returns the bytes of each small tensor and the digest of each large one; reads once from each device."""
    contents = [b""] * len(tensors)
    for device in {tensor.device for tensor in tensors}:
        places = [place for place, tensor in enumerate(tensors) if tensor.device == device]
        parts = [
            _octets(tensors[place] if tensors[place].nbytes <= SMALL else tensor_digest(tensors[place]))
            for place in places
        ]
        read = torch.cat(parts).cpu().split([part.numel() for part in parts])
        for place, octets in zip(places, read, strict=True):
            contents[place] = octets.numpy().tobytes()
    return contents


def _octets(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _leaves(value: object, name: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _leaves(value[key], f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _leaves(item, f"{name}.{place}")
    else:
        yield name, value
