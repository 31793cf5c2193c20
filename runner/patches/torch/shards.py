"""Which part of a distributed tensor a rank has: torch 2.10 to 2.15 computes it in `torch.distributed.tensor._utils`.

`DTensor.from_local` and `distribute_tensor` compute shape and offset too, but return neither.
"""

from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset


def place_of(tensor: DTensor) -> tuple[slice, ...]:
    """Returns the indices of this rank's part of a distributed tensor, one slice for each dimension."""
    shape, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(slice(start, start + size) for start, size in zip(offset, shape, strict=True))
