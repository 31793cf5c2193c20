"""Which units for bf16 the CPU has.

torch 2.13 returns them by `torch.cpu.get_capabilities`. Older supported releases (2.10) may lack this function; they
have a private function for each unit.
"""

import torch


def has_amx() -> bool:
    """Whether the CPU has matrix units (AMX)."""
    units = _capabilities()
    return torch.cpu._is_amx_tile_supported() if units is None else bool(units.get("amx_tile"))


def has_avx512_bf16() -> bool:
    """Whether the CPU has vector units for bf16 (AVX512-BF16)."""
    units = _capabilities()
    return torch.cpu._is_avx512_bf16_supported() if units is None else bool(units.get("avx512_bf16"))


def has_bf16() -> bool:
    """Whether the CPU multiplies in bf16 by units of its own (AMX or AVX512-BF16)."""
    return has_amx() or has_avx512_bf16()


def _capabilities() -> dict[str, object] | None:
    """Returns the capabilities of the CPU by name; None if torch lacks the function."""
    tell = getattr(torch.cpu, "get_capabilities", None)
    return None if tell is None else dict(tell())
