"""Embeddings that a generator and a discriminator share: all of them, or disentangled by gradient (arXiv 2111.09543).

Letters in shapes: V tokens (or positions), W width of a shared table, E width of a network's embeddings, M targets.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

BESIDE_TOKENS = ("position_embeddings", "token_type_embeddings")
"""Tables beside that of tokens that models call as modules; others read the weights of such tables."""


def share_embeddings(discriminator: PreTrainedModel, generator: PreTrainedModel, sharing: str) -> None:
    """Has the generator use the discriminator's tables of tokens, positions and segments, in all of `sharing` but `none`.

    `all`: both train them. `gdes`: the generator trains them; the discriminator reads them without a gradient and adds
    tables of its own, 0 at first. A generator with embeddings of another width reads a table through a projection, and
    decodes through it where its output embeddings are tied to its input embeddings.
    """
    if sharing == "none":
        return
    ours, theirs = _tables(discriminator), _tables(generator)
    decoder = generator.get_output_embeddings()
    inputs = generator.get_input_embeddings()
    tied = isinstance(decoder, nn.Linear) and decoder.weight is inputs.weight
    for name, table in ours.items():  # in their order, as projections are drawn
        used = theirs.get(name)
        if used is None or used.num_embeddings != table.num_embeddings:
            continue
        if table.embedding_dim != used.embedding_dim:
            ProjectedEmbedding.put_into(used, table.embedding_dim)
        if sharing == "all":
            used.weight = table.weight
        else:
            with torch.no_grad():
                used.weight.copy_(table.weight)
            DisentangledEmbedding.put_into(table, used)
    if tied:
        decoder.weight = inputs.weight
        if isinstance(inputs, ProjectedEmbedding):
            ProjectedDecoder.put_into(decoder, inputs)


def _tables(model: PreTrainedModel) -> dict[str, nn.Embedding]:
    """The tables of a model's tokens, positions and segments, by name."""
    base, tokens = model.base_model, model.get_input_embeddings()
    beside = next(module for module in base.modules() if tokens in module.children())
    found = {name: child for name, child in beside.named_children() if isinstance(child, nn.Embedding)}
    return {name: table for name, table in found.items() if table is tokens or name in BESIDE_TOKENS}


class ProjectedEmbedding(nn.Embedding):
    """A shared table [V, W], read through a projection to a narrower or wider network's E features."""

    project: nn.Linear

    @classmethod
    def put_into(cls, module: nn.Embedding, width: int) -> None:
        """Makes the module of E features one with a table of `width`, whose values are to be set."""
        size, like = module.embedding_dim, module.weight
        module.weight = nn.Parameter(like.new_empty(module.num_embeddings, width))
        module.embedding_dim = width
        module.project = nn.Linear(width, size, bias=False, device=like.device, dtype=like.dtype)
        nn.init.normal_(module.project.weight, std=width**-0.5)  # keeps the spread of the table
        module.__class__ = cls

    def forward(self, input: Tensor) -> Tensor:
        """Embeddings [..., E] of ids [...]."""
        return self.project(super().forward(input))

    def plain(self) -> Tensor:
        """The table [V, E] of a model of transformers with these embeddings."""
        return self.weight @ self.project.weight.T


class ProjectedDecoder(nn.Linear):
    """Output embeddings tied to a `ProjectedEmbedding`."""

    @classmethod
    def put_into(cls, module: nn.Linear, table: ProjectedEmbedding) -> None:
        """Makes the module one that decodes by the table, whose weight it has already."""
        module.__dict__["table"] = table  # not a submodule: the projection is the table's
        module.__class__ = cls

    def forward(self, input: Tensor) -> Tensor:
        """Logits [..., V] of states [..., E]."""
        table: ProjectedEmbedding = self.__dict__["table"]
        return functional.linear(functional.linear(input, table.project.weight.T), self.weight, self.bias)

    def plain(self) -> Tensor:
        """The table's."""
        return self.__dict__["table"].plain()


class DisentangledEmbedding(nn.Embedding):
    """A table of differences from another network's table, which gets no gradient through it."""

    @classmethod
    def put_into(cls, module: nn.Embedding, source: nn.Embedding) -> None:
        """Makes the module one that differs from the source by nothing yet."""
        with torch.no_grad():
            module.weight.zero_()
        module.__dict__["source"] = source  # not a submodule: it is the generator's
        module.__class__ = cls

    def forward(self, input: Tensor) -> Tensor:
        """Embeddings [..., E] of ids [...]."""
        source = self.__dict__["source"].weight.detach()
        return functional.embedding(input, source) + super().forward(input)

    def plain(self) -> Tensor:
        """The sum of both tables [V, E]."""
        return self.__dict__["source"].weight + self.weight


@torch.no_grad()
def plain_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """The weights of a model with its embeddings as transformers has them; tied ones are one tensor."""
    state: dict[str, Tensor] = model.state_dict()
    made: dict[int, Tensor] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, ProjectedEmbedding | ProjectedDecoder | DisentangledEmbedding):
            state.pop(f"{name}.project.weight", None)
            state[f"{name}.weight"] = made.setdefault(id(module.weight), module.plain())
    return state
