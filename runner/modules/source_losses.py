"""The training loss of each source of a mixture."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.task_model import Output


class SourceLosses:
    """Adds up losses and weights of the samples of each source over the micro-batches of a step, in float64.

    Of a model that does not tell losses by row there are none.

    Example:
        >>> losses = SourceLosses(["few", "many"], torch.device("cpu"))
        >>> rows = {"loss": torch.tensor([6.0, 1.0, 2.0]), "weight": torch.tensor([2.0, 1.0, 1.0])}
        >>> losses.add({"sources": torch.tensor([1, 1, 1])}, {"row_sums": rows})
        >>> losses.figures(lambda sums: sums)
        {'train/loss/many': 2.25}
    """

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self._names = list(names)
        self._sums = torch.zeros((2, len(self._names)), dtype=torch.float64, device=device)

    def add(self, micro_batch: MicroBatch, output: Output) -> None:
        """Adds a micro-batch with the `sources` of its rows; the device is not waited for."""
        if "row_sums" in output:
            rows: Mapping[str, Tensor] = output["row_sums"]
            sums = torch.stack([rows[name].detach().double() for name in ("loss", "weight")])
            self._sums.index_add_(1, micro_batch["sources"], sums)

    def figures(self, sum_over_ranks: Callable[[dict[str, float]], dict[str, float]]) -> dict[str, float]:
        """`train/loss/<source>` for each source with a target in the step, over all ranks; collective."""
        keys = [(kind, name) for kind in ("loss", "weight") for name in self._names]
        sums = zip(map("/".join, keys), self._sums.flatten().tolist(), strict=True)
        totals = sum_over_ranks(dict(sums))
        weights = {name: totals[f"weight/{name}"] for name in self._names}
        return {
            f"train/loss/{n}": totals[f"loss/{n}"] / weight for n, weight in weights.items() if weight > 0
        }
