"""The submodules of a module: torch 2.10 to 2.15 keeps them in `Module._modules`, which a copy of the module shares.

So a submodule of the copy cannot be exchanged alone, nor can another module take over all submodules of a module.
"""

import copy
from typing import TypeVar

from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def shallow_copy(module: Module) -> Module:
    """Returns a copy of a module with the same submodules; exchanging a submodule does not change the original.

    Example:
        >>> first = nn.Sequential(nn.Identity())
        >>> second = shallow_copy(first)
        >>> second[0] = nn.Tanh()
        >>> first[0], second[0]
        (Identity(), Tanh())
    """
    clone = copy.copy(module)
    clone._modules = dict(module._modules)
    return clone


def share_parts(module: nn.Module, other: nn.Module) -> None:
    """Lets a module use the submodules of another module."""
    module._modules = other._modules
