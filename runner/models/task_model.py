"""The base class of all models that are trained: it maps micro-batches to sums."""

from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import PreTrainedModel

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.embedding.folder import Embedding
from tiryns.runner.models.flops import FlopCounts, network_flops

Output = dict[str, Any]
"""The result of a task model for a micro-batch: sums by name, `row_sums` of each row, outputs to predict from."""


class TaskModel(nn.Module):
    """Maps a micro-batch to the *sum* of its losses; `task_model` of a `Collator` makes one.

    A subclass defines `forward`; all else has a default. `WrappedModel` lays out rows for any encoder of transformers.

    Example:
        >>> class Sum(TaskModel):
        ...     def forward(self, micro_batch):
        ...         return {"loss": self.pretrained(micro_batch["input_ids"]).logits.sum()}
    """

    pretrained: PreTrainedModel
    """The model of transformers that is exported."""

    note: str = ""
    """A note to users of the exported model, for its model card."""

    by_row: bool = False
    """Whether `forward` also returns `row_sums`, its sums for each row; a model that does not know them leaves them
    out."""

    embedding: Embedding | None = None
    """How texts become vectors, if the model is trained to make vectors; exported with the model."""

    couples_batch: ClassVar[bool] = False
    """Whether the loss couples all rows of the global batch, and so takes two passes over its micro-batches (see
    `runner.modules.two_passes`)."""

    position_offset: int | None = None
    """The first position of a packed document; None until `pack_rows` is called."""

    unshardable: str = ""
    """Why the model cannot be trained in shards; empty if it can."""

    def __init__(self, pretrained: PreTrainedModel) -> None:
        super().__init__()
        self.pretrained = pretrained

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns sums over the micro-batch, `loss` and others for the metrics, and outputs to read predictions from."""
        raise NotImplementedError

    def factor(self, micro_batch: MicroBatch, name: str) -> float:
        """Returns the factor of a part of the loss, so that the step divides this part by the denominator `name`.

        The step divides the sum of all losses by the `weight` of the global batch, so the factor is this weight divided
        by the denominator, both over the global batch, or over the micro-batch if it has no `batch_totals`. It is 0 if
        the denominator is 0. A batch of weight 0 trains nothing, so let `weight` be a count that is never 0. In
        validation, `figures` divides each part by its own denominator, `totals[name]`.

        Example:
            >>> model, batch = TaskModel(None), {"weight": 40.0, "denominators": {"masked": 5.0}}
            >>> with_totals = {**batch, "batch_totals": {"weight": 90.0, "masked": 9.0}}
            >>> model.factor(batch, "masked"), model.factor(with_totals, "masked")
            (8.0, 10.0)
        """
        counts = {"weight": float(micro_batch["weight"]), **micro_batch["denominators"]}
        totals = micro_batch.get("batch_totals", counts)
        return totals["weight"] / totals[name] if totals[name] else 0.0

    def describe(self) -> str:
        """Returns architecture and sizes in a few words."""
        config = self.pretrained.config
        return f"{config.model_type}, {config.num_hidden_layers} layers of {config.hidden_size}"

    def figure_names(self) -> list[str]:
        """Returns the names of the `figures`, the loss first; empty if they are unknown before a batch."""
        return []

    def figures(self, totals: dict[str, float]) -> dict[str, float]:
        """Returns the metrics of a pretraining validation, from the sums of `forward`'s entries and of the `weight`."""
        return {"loss": totals["loss"] / max(totals["weight"], 1e-12)}

    def fixed_models(self) -> dict[str, nn.Module]:
        """Returns the frozen models that training uses but the state does not contain, by the setting that names each."""
        return {}

    def before_training(self, data: object, digests: dict[str, str], rank: int) -> None:
        """Prepares data that training reads besides micro-batches; `digests` has the digest of each of `fixed_models`."""

    def pack_rows(self) -> None:
        """Sets the model up for packed rows permanently; raises ValueError if packing changes results."""
        raise ValueError(f"{type(self).__name__} does not read packed rows; set data.layout=padded")

    def try_padding(self) -> str:
        """Returns why padded rows could not be tried, or an empty string; ValueError if padding changes results."""
        return ""

    def trial(self, rows: MicroBatch) -> Tensor:
        """Returns the outputs [D, T, ...] of each token of padded rows, for a trial to compare."""
        return self.pretrained.base_model(**rows)[0]

    def compute_all_tokens(self) -> None:
        """Makes every layer compute all tokens, as sharding and compilation need, if a subclass leaves out some."""

    def recompute_activations(self) -> None:
        """Keeps no activations of layers, but computes them again in the backward pass."""
        self.pretrained.gradient_checkpointing_enable()

    def compile_core(self) -> None:
        """Compiles the encoder."""
        self.pretrained.base_model.compile(dynamic=True)

    def flop_counts(self) -> FlopCounts:
        """Returns the operations of training per token, pair of tokens, target and image."""
        return network_flops(self)

    def learnt_settings(self) -> dict[str, object]:
        """Returns the settings of the objective that training has learnt, which replace the given ones in the export."""
        return {}

    def exported_weights(self) -> dict[str, Tensor] | None:
        """Returns the weights to export as those of `pretrained`; None for the weights that `pretrained` has."""
        return None

    def export_beside(self, folder: Path) -> list[Path]:
        """Writes further exports into the folder of `pretrained`; returns the folders of further models."""
        return []

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """Returns how many tokens of a micro-batch the head reads."""
        return len(micro_batch["targets"])

    def num_images(self, micro_batch: MicroBatch) -> float:
        """Returns the images of a micro-batch, in units of the image size that `flop_counts` assumes."""
        return 0.0
