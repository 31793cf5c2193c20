"""What an objective trains: a module that maps micro-batches to sums, and what the step and evaluation ask of it."""

from torch import Tensor, nn
from transformers import PreTrainedModel

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.models.flops import FlopCounts, network_flops


class TaskModel(nn.Module):
    """Maps a micro-batch to the *sum* of its losses; `task_model` of a `Collator` makes one.

    A subclass has `forward`; the rest has a default, but for rows that are packed or padded. `WrappedModel` knows how to
    lay out rows for any encoder of transformers.

    Example:
        >>> class Sum(TaskModel):
        ...     def forward(self, micro_batch):
        ...         return {"loss": self.pretrained(micro_batch["input_ids"]).logits.sum()}
    """

    pretrained: PreTrainedModel
    """The model of transformers that is exported."""

    position_offset: int | None = None
    """Where positions of packed rows begin; None until `pack_rows`."""

    def __init__(self, pretrained: PreTrainedModel) -> None:
        super().__init__()
        self.pretrained = pretrained

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Sums over the micro-batch: `loss`, and whatever the figures are made of; what predictions are read from."""
        raise NotImplementedError

    def describe(self) -> str:
        """Architecture and sizes in a few words."""
        config = self.pretrained.config
        return f"{config.model_type}, {config.num_hidden_layers} layers of {config.hidden_size}"

    def figure_names(self) -> list[str]:
        """The names of the `figures`, the loss first; none where they are not known before a batch."""
        return []

    def figures(self, totals: dict[str, float]) -> dict[str, float]:
        """What to report of a pretraining validation, from the sums of `forward`'s entries and of the `weight`."""
        return {"loss": totals["loss"] / max(totals["weight"], 1e-12)}

    def pack_rows(self) -> None:
        """Sets the model up for packed rows, for good; raises ValueError where it cannot read them."""
        raise ValueError(f"{type(self).__name__} does not read packed rows; set data.layout=padded")

    def try_padding(self) -> str:
        """Tries whether rows may be padded; returns why that could not be tried, or nothing.

        Raises ValueError where padding changes what the model makes of a document.
        """
        return ""

    def tried(self, rows: MicroBatch) -> Tensor:
        """What such a trial looks at: of each token of padded rows [D, T, ...], what the model makes of it."""
        states: Tensor = self.pretrained.base_model(**rows)[0]
        return states

    def recompute_activations(self) -> None:
        """Keeps no activations of layers but computes them again in the backward pass."""
        self.pretrained.gradient_checkpointing_enable()

    def compile_core(self) -> None:
        """Compiles what goes over the tokens."""
        self.pretrained.base_model.compile(dynamic=True)

    def flop_counts(self) -> FlopCounts:
        """What training on a token, a pair of tokens, a target and an image takes."""
        return network_flops(self)

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """How many tokens of a micro-batch the head reads."""
        return len(micro_batch["targets"])

    def num_images(self, micro_batch: MicroBatch) -> float:
        """Images of a micro-batch, in those of the size that `flop_counts` is given for."""
        return 0.0
