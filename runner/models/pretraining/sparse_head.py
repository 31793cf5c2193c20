"""A masked language model whose head runs only on the positions with a target."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed.dropout import has_dropout
from tiryns.runner.models.packed.dropout_keys import current_keys
from tiryns.runner.models.packed.trials import evaluating
from tiryns.runner.models.pretraining.fixed_shapes import FixedShapes, Sizes, fill
from tiryns.runner.models.quick.gradients import shortcuts
from tiryns.runner.models.quick.linear_cross_entropy import can_fuse, linear_cross_entropy
from tiryns.runner.models.replaced_encoder import encoder_returning, head_alone
from tiryns.runner.models.task_model import Output
from tiryns.runner.models.wrapped import WrappedModel, sum_by_row
from tiryns.runner.optim.compiled import Compiled
from tiryns.runner.widening import widen

CLM, HYBRID, SHIFTED = "clm", "hybrid", "hybrid_shifted"
"""Values of `objective_of`: after `clm` the encoder reads causally, after the others also both ways. After
`hybrid_shifted` it guesses a masked token at the token before it."""

Scored = tuple[Sequence[Tensor], Sequence[Tensor]]
"""In chunks, the loss of each target [N], and whether its guess is right (empty in training)."""

LOGITS_AT_ONCE = 2**25
"""Logits computed at a time: 128 MiB in fp32."""


class SparseMaskedLM(WrappedModel):
    """Wraps any masked language model of transformers whose head treats positions one by one.

    The head receives the hidden states of the N targets as one sequence.
    """

    fillable: ClassVar[bool] = True
    """Whether tokens can be added to a packed row: the encoder must read only ids and positions."""

    def __init__(self, pretrained: PreTrainedModel) -> None:
        super().__init__(pretrained)
        if pretrained.base_model is pretrained:
            raise ValueError(f"{type(pretrained).__name__} has no encoder below its head")
        self._ends_in_layer: bool | None = None
        self._drops: bool | None = None
        self._compiled_losses: Compiled | None = None
        self._fixed: FixedShapes | None = None
        self._head_alone: tuple[PreTrainedModel, ...] = ()  # no module of this one: it has the same weights

    def forward(self, micro_batch: MicroBatch) -> Output:
        """Returns sums over the micro-batch: `loss` in nats (times any `target_weights`), `correct` (0 in training)."""
        losses, correct = self.target_losses(micro_batch, micro_batch["target_positions"])
        sums: Output = {"loss": sum_chunks(losses), "correct": sum_chunks(correct)}
        if self.by_row:
            by_target = {"loss": torch.cat(list(losses))}
            by_target |= {} if self.training else {"correct": torch.cat(list(correct))}
            sums["row_sums"] = self.row_sums(micro_batch, by_target)
        return sums

    def target_losses(self, micro_batch: MicroBatch, positions: Tensor) -> Scored:
        """Returns the result of `score_each` for the targets at positions [N]."""
        shapes = self._fixed_shapes if "cu_seqlens" in micro_batch else None
        if shapes or self._is_filled(micro_batch):
            wider, places = fill(micro_batch, positions, shapes.sizes if shapes else None)
            hidden = shapes.encode(self.arguments(wider)) if shapes else self.encode(wider, places)
            states = rows_at(hidden, places)
            losses, correct = self.score_each(states, wider["targets"], wider["target_weights"], places)
            return [torch.cat(list(losses))[: len(positions)]], correct
        states = rows_at(self.encode(micro_batch, positions), positions)
        return self.score_each(states, micro_batch["targets"], micro_batch.get("target_weights"), positions)

    def _is_filled(self, micro_batch: MicroBatch) -> bool:
        """Whether rows are filled to recurring lengths: on a CPU in bf16, in training of a model without dropout."""
        quick = self.training and shortcuts().once and self._compiled_losses is None
        if not (quick and self.fillable and "cu_seqlens" in micro_batch) or "causal" in micro_batch:
            return False
        if micro_batch["input_ids"].device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
            return False
        if self._drops is None:
            self._drops = has_dropout(self.pretrained)
        return not self._drops and len(micro_batch["targets"]) > 0

    def row_sums(self, micro_batch: MicroBatch, by_target: dict[str, Tensor]) -> dict[str, Tensor]:
        """Returns the sums [D] over each row's targets, by name, and the number of targets as `weight`."""
        values = {**by_target, "weight": torch.ones_like(by_target["loss"])}
        return sum_by_row(micro_batch, micro_batch["target_positions"], values)

    def inputs_and_targets(self, micro_batch: MicroBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the encoder's token ids [B, T], positions [N] of targets, and targets [N]."""
        return micro_batch["input_ids"], micro_batch["target_positions"], micro_batch["targets"]

    def places(self, micro_batch: MicroBatch, positions: Tensor) -> Tensor:
        """Returns the positions [N] of the tokens that are guessed at `positions` [N]; here the same positions."""
        return positions

    def score(
        self, hidden: Tensor, targets: Tensor, weights: Tensor | None, positions: Tensor
    ) -> dict[str, Tensor]:
        """Returns sums of `loss` (in fp32) and `correct` over hidden states [N, H] with targets [N] and factors [N]."""
        losses, correct = self.score_each(hidden, targets, weights, positions)
        return {"loss": sum_chunks(losses), "correct": sum_chunks(correct)}

    def score_each(
        self, hidden: Tensor, targets: Tensor, weights: Tensor | None, positions: Tensor, *more: Tensor
    ) -> Scored:
        """Returns the losses of hidden states [N, H] with targets [N] and factors [N], and their `outcomes`, in chunks.

        `more` are further tensors [N, ...] for the `token_losses` of a subclass. Dropout of the head depends on the
        targets' `positions` [N], which count tokens row by row.

        The backward pass computes chunks again, so that no more than `LOGITS_AT_ONCE` logits are in memory.
        """
        weights = torch.ones_like(targets, dtype=torch.float32) if weights is None else weights
        size = max(1, LOGITS_AT_ONCE // self.pretrained.config.get_text_config().vocab_size)
        parts = (x.split(size) for x in (hidden, targets, weights, positions, *more))
        chunks = list(zip(*parts, strict=True))
        if len(chunks) <= 1 or not torch.is_grad_enabled():
            results = [self._score_chunk(*chunk) for chunk in chunks]
        else:
            results = [checkpoint(self._score_chunk, *chunk, use_reentrant=False) for chunk in chunks]
        losses, correct = zip(*results, strict=True)
        return losses, correct

    def compile_core(self) -> None:
        """Compiles the encoder, and for training the head with the loss, for chunks of any number of targets."""
        super().compile_core()
        self.trace_head()
        self._compiled_losses = Compiled(self._losses, "head and loss", dynamic=True)

    def fix_shapes(self, sizes: Sizes) -> None:
        """Fills packed rows in training to these sizes and computes them in CUDA graphs; needs `compile_core` first."""
        self._fixed = FixedShapes(self.pretrained, self._losses, self._compiled_losses, sizes)

    @property
    def _fixed_shapes(self) -> FixedShapes | None:
        """Returns the computation of filled rows in training; None if rows are not filled to fixed shapes."""
        return self._fixed if self.training and self._fixed is not None and self._fixed.works else None

    def trace_head(self) -> None:
        """Lets torch.compile trace `logits`."""
        self._head_alone = (head_alone(self.pretrained),)

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits [N, V] of hidden states [N, H]."""
        if self._head_alone and torch.compiler.is_compiling():
            return self._head_alone[0](input_ids=None, inputs_embeds=hidden[None]).logits[0]
        with encoder_returning(self.pretrained, hidden[None]):
            return self.pretrained(input_ids=None).logits[0]

    def token_losses(self, logits: Tensor, targets: Tensor, *more: Tensor) -> Tensor:
        """Returns the loss [N] of each target [N], in nats, from logits [N, V] in fp32, before it is weighted."""
        return functional.cross_entropy(logits, targets, reduction="none")

    def figure_names(self) -> list[str]:
        return list(self.figures(defaultdict(lambda: 1.0)))

    def figures(self, totals: dict[str, float]) -> dict[str, float]:
        """Returns the metrics of an evaluation, from the sums of `forward`'s entries and of the weights."""
        loss, accuracy = (totals[name] / max(totals["weight"], 1.0) for name in ("loss", "correct"))
        return {"loss": loss, "accuracy": accuracy, "perplexity": math.exp(min(loss, 700.0))}

    @property
    def reads_logits(self) -> bool:
        """Whether training reads the logits themselves, not only their cross entropy."""
        methods = ("logits", "token_losses", "outcomes")
        return any(getattr(type(self), name) is not getattr(SparseMaskedLM, name) for name in methods)

    def _score_chunk(
        self, hidden: Tensor, targets: Tensor, weights: Tensor, positions: Tensor, *more: Tensor
    ) -> tuple[Tensor, Tensor]:
        keys = current_keys()
        with nullcontext() if keys is None else keys.piece(positions):
            shapes = self._fixed_shapes
            function = shapes.losses if shapes else self._compiled_losses if self.training else None
            if function is None and self.training and shortcuts().once and self._can_fuse(hidden):
                layer = self.pretrained.get_output_embeddings()
                with _returning_inputs(layer):
                    states = self.logits(hidden)
                return linear_cross_entropy(states, layer.weight, layer.bias, targets) * weights, targets[:0]
            losses, logits = (function or self._losses)(hidden, targets, *more)
        with torch.no_grad():
            outcomes = self.outcomes(logits, targets, positions)
        return losses * weights, outcomes

    def _losses(self, hidden: Tensor, targets: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the losses [N] of hidden states [N, H] with targets [N], and the logits [N, V]."""
        logits = self.logits(hidden)
        return self.token_losses(widen(logits), targets, *more), logits

    def _can_fuse(self, hidden: Tensor) -> bool:
        """Whether the output layer's inputs and weights alone decide the losses; tries it at the first call."""
        layer = self.pretrained.get_output_embeddings()
        if self.reads_logits or not can_fuse(hidden, layer):
            return False
        if self._ends_in_layer is None:
            self._ends_in_layer = self._logits_are_of(layer, hidden)
        return self._ends_in_layer

    @torch.no_grad()
    def _logits_are_of(self, layer: nn.Linear, hidden: Tensor) -> bool:
        """Whether the head ends with `layer`; some heads scale or bound its logits, or add a bias for each token."""
        generator = torch.Generator().manual_seed(0)
        states = torch.randn((3, hidden.shape[-1]), generator=generator).to(hidden)
        with evaluating(self.pretrained), suppress(RuntimeError):  # biases of other width than the states
            logits = self.logits(states)
            with _returning_inputs(layer):
                inputs = self.logits(states)
            return torch.equal(logits, functional.linear(inputs, layer.weight, layer.bias))
        return False

    def outcomes(self, logits: Tensor, targets: Tensor, positions: Tensor) -> Tensor:
        """Returns whether targets [N] are guessed right by their logits [N, V]; empty in training."""
        return targets[:0] if self.training else logits.argmax(-1) == targets


def sum_chunks(chunks: Sequence[Tensor]) -> Tensor:
    """Returns the sum over all chunks, 0-dim."""
    return torch.stack([chunk.sum() for chunk in chunks]).sum()


def rows_at(hidden: Tensor, positions: Tensor) -> Tensor:
    """Returns the hidden states [N, H] of [B, T, H] at positions [N], which count tokens row by row."""
    return hidden.reshape(-1, hidden.shape[-1]).index_select(0, positions)


@contextmanager
def _returning_inputs(layer: nn.Module) -> Iterator[None]:
    """Makes a layer return its input in the block."""
    layer.forward = lambda states: states
    try:
        yield
    finally:
        del layer.forward
