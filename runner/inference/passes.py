"""The forward pass of a trained model over a set of samples, computed as in the evaluations of its run."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from lightning.fabric.utilities import move_data_to_device
from numpy.typing import NDArray
from omegaconf import DictConfig

from tiryns.runner.data.batches import VALIDATION_STREAM, GatheredSequences, GlobalBatches
from tiryns.runner.data.evaluated import EVALUATED_AT_ONCE
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.statistics.intervals import Statistic
from tiryns.runner.models.autocast import autocast_dtype
from tiryns.runner.models.initial.dtypes import weights_dtype
from tiryns.runner.models.packed.rows import choose_layout, may_be_padded
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives import Collator
from tiryns.runner.run.folder import Run
from tiryns.runner.run.model_folder import model_folder
from tiryns.runner.run.yaml_files import read_config
from tiryns.runner.samplers import Sequential

Report = Callable[[int, int], None]
"""A function that receives the number of finished samples and of all samples."""

Model = Callable[[MicroBatch], Mapping[str, Any]]
"""A function from a micro-batch to the output."""

P_co = TypeVar("P_co", covariant=True)


class Computation(NamedTuple):
    """How a model is computed: its precision, the layout of rows, and the limits of a micro-batch."""

    precision: str = "32-true"
    layout: str = "padded"
    micro_batch_tokens: int | None = 8192
    micro_batch_size: int | None = None

    def set_up(self, collator: Collator, model: TaskModel) -> "Computation":
        """Moves the model to its device and sets it up; returns the computation with a layout that the model supports."""
        if self.layout == "packed":
            layout = choose_layout("auto", collator, model)
        else:
            layout = "padded" if self.layout == "padded" and may_be_padded(model) else "single"
        model.to(device_here(), weights_dtype(self.precision)).eval()
        # In memory of torch: on what a file is mapped to kernels round otherwise
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
        return self._replace(layout=layout)

    def limit(self, tokens: int | None) -> "Computation":
        """Returns the computation with micro-batches of up to `tokens` tokens; unchanged for None."""
        return self if tokens is None else self._replace(micro_batch_tokens=tokens)

    def autocast(self) -> AbstractContextManager[object]:
        """Returns the autocast context for a mixed precision, else an empty context."""
        if not self.precision.endswith("-mixed"):
            return nullcontext()
        return torch.autocast(device_here().type, autocast_dtype(self.precision))


def device_here() -> torch.device:
    """Returns the GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def as_trained(run: str) -> Computation:
    """Returns the computation of a run's evaluations. Padded fp32 rows without a run."""
    return as_resolved(Run(Path(model_folder(run)).parent).status.get("resolved") or {})


def as_resolved(record: Mapping[str, Any]) -> Computation:
    """Returns the computation that a run has noted as resolved; without a GPU fp16 becomes fp32."""
    values: dict[str, Any] = {name: record[name] for name in Computation._fields if record.get(name)}
    if not values:
        return Computation()
    if values.get("precision") in ("16-mixed", "16-true") and not torch.cuda.is_available():
        values["precision"] = "32-true"
    return Computation(**{"micro_batch_tokens": None, **values})


def run_config(run: str) -> DictConfig | None:
    """Returns the config of a model's run; None for a model without its run."""
    parent = Run(Path(model_folder(run)).parent)
    file = parent.path / "config.yaml"  # of the user's own, where no run was begun
    return read_config(file) if parent.status and file.is_file() else None


class Passed(NamedTuple):
    """A micro-batch, the model's output for it, and the index of the sample in each of its rows [D]."""

    micro_batch: MicroBatch
    output: Mapping[str, Any]
    samples: NDArray[np.int64]


def passes(
    model: Model,
    collator: Collator,
    sequences: GatheredSequences,
    computation: Computation,
    seed: int = 0,
    samples_at_once: int = EVALUATED_AT_ONCE,
    report: Report | None = None,
) -> Iterator[Passed]:
    """Yields the model's output for all samples of a set, each once, in global batches of `samples_at_once`."""
    size = min(samples_at_once, len(sequences))
    sampler = Sequential(dataset=sequences, num_epochs=1, num_batches=None, global_batch_size=size, seed=seed)
    rows = 1 if computation.layout == "single" else computation.micro_batch_size
    cut = (computation.micro_batch_tokens, rows, computation.layout == "packed")
    batches = GlobalBatches(sequences, sampler, collator, seed, VALIDATION_STREAM, 0, 1, *cut)
    if isinstance(model, torch.nn.Module):  # no function of one
        model.to(weights_dtype(computation.precision))  # another than the run's may be asked for
    device, num_samples = device_here(), 0
    for step in range(len(sampler)):
        share = batches[step]
        numbers = share["sample_ids"][:, 1].numpy()
        # The rows that a model tells the sums of: the documents, or the samples whose choices they are
        counts = [len(batch.get("num_choices", batch["sample_keys"])) for batch in share["micro_batches"]]
        copies = sum(counts) // len(numbers)  # that an objective lays out, one after the other
        parts = np.split(numbers, np.cumsum([count // copies for count in counts])[:-1])
        for micro_batch, part in zip(share["micro_batches"], parts, strict=True):
            on_device: MicroBatch = move_data_to_device(micro_batch, device)
            with torch.no_grad(), computation.autocast():
                output = model(on_device)
            yield Passed(on_device, output, np.tile(part, copies))
        num_samples += len(share["sample_ids"])
        if report is not None:
            report(num_samples, len(sequences))


class RowSums:
    """Adds up the sums of rows for each owner of samples, such as a document or a question."""

    def __init__(self, owners: NDArray[np.int64], num_owners: int) -> None:
        self.owners, self.num_owners = owners, num_owners
        self.sums: dict[str, NDArray[np.float64]] = {}
        """The sums of each owner [E], by name; empty if the model's output has no `row_sums`."""

    def add(self, batch: Passed) -> None:
        """Adds a micro-batch."""
        owners = self.owners[batch.samples]
        for name, value in batch.output.get("row_sums", {}).items():
            mine = np.bincount(owners, value.double().cpu().numpy(), self.num_owners).astype(np.float64)
            self.sums[name] = self.sums.get(name, 0.0) + mine


class Measured(NamedTuple, Generic[P_co]):
    """Predictions for a set, and its metrics."""

    predictions: P_co
    """For a labelled set the filled `Predictions`; for text a line for each document."""
    figures: dict[str, float]
    """The loss and the metrics, as in a run's test; empty without labels."""
    sums: dict[str, NDArray[np.float64]]
    """The `loss`, the `weight` and the `correct` targets of each example [E], if the model gives them by row."""
    statistic: Callable[[], tuple[Statistic, int] | None]
    """Returns a function that maps examples' weights to metrics, and the number of examples; None without their sums."""
