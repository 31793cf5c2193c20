"""Serializes batches of loader processes: small tensors by value, as each in shared memory takes a millisecond."""

import pickle
from collections.abc import Callable
from io import BytesIO
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import reduce_tensor
from torch.utils.data import get_worker_info

LARGE = 1 << 20
"""Bytes from which shared memory is faster."""


class SerializedBatch:
    """A batch as bytes; it is unpickled as the batch itself."""

    def __init__(self, batch: Any) -> None:
        content = BytesIO()
        pickler: Any = ForkingPickler(content, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = {**pickler.dispatch_table, Tensor: _reduce}
        pickler.dump(batch)
        self.content = content.getvalue()

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return pickle.loads, (self.content,)


def serialize_batch(batch: Any) -> Any:
    """The batch, in a loader process as a `SerializedBatch`."""
    return batch if get_worker_info() is None else SerializedBatch(batch)


def _reduce(tensor: Tensor) -> Any:
    if tensor.nbytes >= LARGE or tensor.dtype == torch.bfloat16:  # which NumPy does not know
        return reduce_tensor(tensor)
    return torch.from_numpy, (tensor.numpy(),)
