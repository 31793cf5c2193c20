"""The generator of replaced token detection: a small masked language model that samples its predictions.

It may share embeddings with the discriminator: all of them, or disentangled by gradient (arXiv 2111.09543).

Letters in shapes: P tokens of a micro-batch with padding, M targets, V vocabulary or positions, H hidden, W width of a
shared table, E width of a network's embeddings.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel

from tiryns.conf.objective.pretraining import ReplacedTokenDetection
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.encoder import checked_fields
from tiryns.runner.models.packed.dropout_keys import DropoutKeys, bits
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM, rows_at, sum_chunks
from tiryns.runner.widening import widen

SAMPLING = 0x73616D706C656473
"""The seed that makes the keys of sampling differ from the keys of dropout."""

NOISE_AT_ONCE = 2**22
"""Random numbers made at a time: 32 MiB of words."""


class TokenGenerator(SparseMaskedLM):
    """Predicts the targets, and samples a token for each from softmax(logits / temperature); no gradient goes through it.

    The sample of a target is the token with the largest logit plus Gumbel noise. The noise is a hash of the document's
    key, the position and the vocabulary token, so it does not depend on how a global batch is cut or laid out.
    """

    def __init__(self, pretrained: PreTrainedModel, temperature: float, never: Tensor) -> None:
        """`never` marks tokens that are not sampled; tokens with ids beyond its length are not sampled either."""
        super().__init__(pretrained)
        self.temperature = temperature
        mask = torch.ones(pretrained.config.get_text_config().vocab_size, dtype=torch.bool)
        mask[: len(never)] = never
        self.register_buffer("left_out", mask, persistent=False)
        self._keys = torch.empty(0, dtype=torch.int64)
        """Keys of the tokens [P], by document and position, or drawn if documents have no keys."""

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns the sum of the targets' `loss` in nats, and a `sampled` token [M] for each."""
        positions = micro_batch["target_positions"]
        if "sample_keys" in micro_batch:
            self._keys = DropoutKeys(micro_batch, SAMPLING).tokens
        else:
            ids = micro_batch["input_ids"]
            self._keys = torch.randint(2**62, (ids.numel(),), device=ids.device)
        hidden = rows_at(self.encode(micro_batch, positions), positions)
        losses, tokens = self.score_each(hidden, micro_batch["targets"], None, positions)
        return {"loss": sum_chunks(losses), "sampled": torch.cat(list(tokens))}

    def outcomes(self, logits: Tensor, targets: Tensor, positions: Tensor) -> Tensor:
        """Returns a sampled token [M] for each target at positions [M], from logits [M, V]."""
        mask: Tensor = self.left_out  # type: ignore[assignment]
        rows = max(1, NOISE_AT_ONCE // logits.shape[-1])
        keys = self._keys[positions]
        tokens = [
            (widen(part) / self.temperature + gumbel(of, part.shape[-1]))
            .masked_fill_(mask, -torch.inf)
            .argmax(-1)
            for part, of in zip(logits.split(rows), keys.split(rows), strict=True)
        ]
        return torch.cat(tokens)


def gumbel(keys: Tensor, count: int) -> Tensor:
    """Returns Gumbel noise -log(-log(1 - u)), float32 [M, count]; int64 keys [M] give 32 bits for each u in (0, 1).

    Small u, which make large noise, have the full precision of float32.
    """
    words = bits(keys, 2 * count).view(torch.int32).long() & 0xFFFFFFFF
    return words.float().add_(0.5).mul_(2.0**-32).neg_().log1p_().neg_().log_().neg_()


def generator_config(config: PretrainedConfig, options: ReplacedTokenDetection) -> PretrainedConfig:
    """Returns a generator's config. `generator_size` is its share of hidden size, feed-forward size and heads, which keep
    their width. `generator_depth` is its share of the layers, the first ones. `options.generator` overrides fields.

    The width of embeddings stays if the config has a field for it (ELECTRA). Raises ValueError for an unknown field.
    """
    small = copy.deepcopy(config)
    heads, layers = config.num_attention_heads, config.num_hidden_layers
    fewer_layers = max(1, round(layers * options.generator_depth))
    fewer = max(1, round(heads * options.generator_size))
    fields: dict[str, object] = {
        "num_attention_heads": fewer,
        "hidden_size": config.hidden_size // heads * fewer,
        "num_hidden_layers": fewer_layers,
    }
    for name in ("intermediate_size", "hidden_dim", "num_key_value_heads"):
        if isinstance(value := getattr(config, name, None), int):
            fields[name] = max(1, round(value * fewer / heads))
    for name, value in vars(config).items():  # of each layer, such as its kind
        if isinstance(value, list) and len(value) == layers:
            fields[name] = value[:fewer_layers]
    small.update(fields | checked_fields(options.generator or {}, config, "objective.generator"))
    return small


BESIDE_TOKENS = ("position_embeddings", "token_type_embeddings")
"""Tables that models call as modules, as they call the table of tokens; they read the weights of other tables."""


def share_embeddings(discriminator: PreTrainedModel, generator: PreTrainedModel, sharing: str) -> None:
    """Makes the generator use the discriminator's tables of tokens, positions and segments, unless `sharing` is `none`.

    `all`: both train them. `gdes`: the generator trains them; the discriminator reads them without a gradient and adds
    tables of its own, 0 at first. A generator with embeddings of another width reads a table through a projection, and
    decodes through it if its output embeddings are tied to its input embeddings.
    """
    if sharing == "none":
        return
    tables, generator_tables = _tables(discriminator), _tables(generator)
    decoder = generator.get_output_embeddings()
    inputs = generator.get_input_embeddings()
    is_tied = isinstance(decoder, nn.Linear) and decoder.weight is inputs.weight
    for name, table in tables.items():  # in their order, as projections are drawn
        generator_table = generator_tables.get(name)
        if generator_table is None or generator_table.num_embeddings != table.num_embeddings:
            continue
        if table.embedding_dim != generator_table.embedding_dim:
            ProjectedEmbedding.put_into(generator_table, table.embedding_dim)
        if sharing == "all":
            generator_table.weight = table.weight
        else:
            with torch.no_grad():
                generator_table.weight.copy_(table.weight)
            DisentangledEmbedding.put_into(table, generator_table)
    if is_tied:
        decoder.weight = inputs.weight
        if isinstance(inputs, ProjectedEmbedding):
            ProjectedDecoder.put_into(decoder, inputs)


def _tables(model: PreTrainedModel) -> dict[str, nn.Embedding]:
    """Returns the tables of a model's tokens, positions and segments, by name."""
    base, tokens = model.base_model, model.get_input_embeddings()
    beside = next(module for module in base.modules() if tokens in module.children())
    tables = {name: child for name, child in beside.named_children() if isinstance(child, nn.Embedding)}
    return {name: table for name, table in tables.items() if table is tokens or name in BESIDE_TOKENS}


class ProjectedEmbedding(nn.Embedding):
    """A shared table [V, W], read through a projection to a narrower or wider network's E features."""

    project: nn.Linear

    @classmethod
    def put_into(cls, module: nn.Embedding, width: int) -> None:
        """Turns an embedding of E features into one with a table of `width`; the caller must set the table's values."""
        size, like = module.embedding_dim, module.weight
        module.weight = nn.Parameter(like.new_empty(module.num_embeddings, width))
        module.embedding_dim = width
        module.project = nn.Linear(width, size, bias=False, device=like.device, dtype=like.dtype)
        nn.init.normal_(module.project.weight, std=width**-0.5)  # keeps the spread of the table
        module.__class__ = cls

    def forward(self, input: Tensor) -> Tensor:
        """Returns the embeddings [..., E] of ids [...]."""
        return self.project(super().forward(input))

    def plain(self) -> Tensor:
        """Returns the table [V, E] with which a plain `nn.Embedding` gives the same embeddings."""
        return self.weight @ self.project.weight.T


class ProjectedDecoder(nn.Linear):
    """Output embeddings tied to a `ProjectedEmbedding`."""

    @classmethod
    def put_into(cls, module: nn.Linear, table: ProjectedEmbedding) -> None:
        """Turns an output layer that has the table's weight into one that decodes through the table's projection."""
        module.__dict__["table"] = table  # not a submodule: the projection is the table's
        module.__class__ = cls

    def forward(self, input: Tensor) -> Tensor:
        """Returns logits [..., V] of states [..., E]."""
        table: ProjectedEmbedding = self.__dict__["table"]
        return functional.linear(functional.linear(input, table.project.weight.T), self.weight, self.bias)

    def plain(self) -> Tensor:
        """Returns the plain table [V, E] of `ProjectedEmbedding`."""
        return self.__dict__["table"].plain()


class DisentangledEmbedding(nn.Embedding):
    """A table of differences that are added to another network's table; that table gets no gradient from here."""

    @classmethod
    def put_into(cls, module: nn.Embedding, source: nn.Embedding) -> None:
        """Turns an embedding into one with the values of `source`: all differences are 0."""
        with torch.no_grad():
            module.weight.zero_()
        module.__dict__["source"] = source  # not a submodule: it is the generator's
        module.__class__ = cls

    def forward(self, input: Tensor) -> Tensor:
        """Returns the embeddings [..., E] of ids [...]."""
        source = self.__dict__["source"].weight.detach()
        return functional.embedding(input, source) + super().forward(input)

    def plain(self) -> Tensor:
        """Returns the sum of both tables [V, E]."""
        return self.__dict__["source"].weight + self.weight


@torch.no_grad()
def plain_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Returns the weights of a model with plain embeddings, as transformers has them; tied weights are one tensor."""
    state: dict[str, Tensor] = model.state_dict()
    weights: dict[int, Tensor] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, ProjectedEmbedding | ProjectedDecoder | DisentangledEmbedding):
            state.pop(f"{name}.project.weight", None)
            state[f"{name}.weight"] = weights.setdefault(id(module.weight), module.plain())
    return state
