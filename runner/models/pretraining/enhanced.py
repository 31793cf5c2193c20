"""RetroMAE's enhanced decoder (arXiv 2205.12035, section 3.3) on any encoder of transformers.

Letters in shapes: B sequences, T tokens, H hidden, E width of the input embeddings.
"""

import math
from collections import defaultdict

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel

from tiryns.conf.objective.pretraining import EnhancedMaskedLanguageModeling
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.embedding.folder import Embedding
from tiryns.runner.models.embedding.pooling import pool
from tiryns.runner.models.flops import FlopCounts
from tiryns.runner.models.packed.rows import repack, unpacked
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM, rows_at


class EnhancedMaskedLM(SparseMaskedLM):
    """The encoder predicts its masked tokens; a decoder predicts each token from the sentence embedding and a few others.

    Both predictions use the model's own head. The decoder is not exported.
    """

    def __init__(
        self, pretrained: PreTrainedModel, options: EnhancedMaskedLanguageModeling, max_sequence_length: int
    ) -> None:
        super().__init__(pretrained)
        embeddings = pretrained.get_input_embeddings()
        assert isinstance(embeddings, nn.Embedding)
        self.options = options
        self.embedding = Embedding(options.pooling, normalised=True, max_length=max_sequence_length)
        sizes = (embeddings.embedding_dim, max_sequence_length)
        self.decoder = EnhancedDecoder(pretrained.config, *sizes, masking=options.decoder_masking)

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns sums over the micro-batch: the weighted `loss` of decoder and encoder, `correct` of the decoder.

        If the encoder has masked tokens, also `decoder_loss`, `encoder_loss`, `encoder_correct` and `encoder_targets`.
        """
        ids, positions, targets = self.inputs_and_targets(micro_batch)
        hidden = self.encode({**micro_batch, "input_ids": ids})
        embeddings = self.pretrained.get_input_embeddings()(micro_batch["input_ids"])
        states = self.decode(hidden, embeddings, micro_batch)
        places = micro_batch["target_positions"]
        sums = self.score(rows_at(states, places), micro_batch["targets"], None, places)
        if "encoder_input_ids" not in micro_batch:
            return sums
        encoder = self.score(rows_at(hidden, positions), targets, None, positions)
        weight = self.options.encoder_loss_weight
        return {
            "loss": (sums["loss"] + weight / micro_batch["encoder_rate"] * encoder["loss"]) / (1 + weight),
            "correct": sums["correct"],
            "decoder_loss": sums["loss"].detach(),
            "encoder_loss": encoder["loss"].detach(),
            "encoder_correct": encoder["correct"],
            "encoder_targets": torch.tensor(len(targets), device=hidden.device),
        }

    def inputs_and_targets(self, micro_batch: MicroBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the encoder's ids, its targets' positions and its targets; no targets if it has no masked tokens."""
        if "encoder_input_ids" not in micro_batch:
            nothing = micro_batch["targets"][:0]
            return micro_batch["input_ids"], nothing, nothing
        positions, targets = micro_batch["encoder_target_positions"], micro_batch["encoder_targets"]
        return micro_batch["encoder_input_ids"], positions, targets

    def decode(self, hidden: Tensor, embeddings: Tensor, micro_batch: MicroBatch) -> Tensor:
        """Returns decoded states [B, T, H] of hidden states [B, T, H] and embeddings [B, T, E], or of packed rows."""
        seeds, sentence = micro_batch["row_seeds"], pool(hidden, micro_batch, self.options.pooling)
        if "cu_seqlens" not in micro_batch:
            return self.decoder(sentence, embeddings, micro_batch["attention_mask"], seeds)
        mask = unpacked(torch.ones_like(seeds), micro_batch, 0)
        padded_embeddings, seeds = unpacked(embeddings, micro_batch, 0.0), unpacked(seeds, micro_batch, 0)
        return repack(self.decoder(sentence, padded_embeddings, mask, seeds), micro_batch)

    def flop_counts(self) -> FlopCounts:
        """Returns the operations, including the decoder's matrices and its attention over every token."""
        return super().flop_counts().plus(FlopCounts(0.0, 12.0 * self.pretrained.config.hidden_size, 0.0))

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """Returns the number of targets of decoder and encoder."""
        return len(micro_batch["targets"]) + len(micro_batch.get("encoder_targets", ()))

    def figure_names(self) -> list[str]:
        totals = {"encoder_targets": 1.0} if self.options.encoder_mlm_probability else {}
        return list(self.figures(defaultdict(lambda: 1.0, totals)))

    def figures(self, totals: dict[str, float]) -> dict[str, float]:
        """Returns the weighted mean of both losses, both losses, both accuracies, and the decoder's perplexity."""
        if "encoder_targets" not in totals:  # the data masks nothing for the encoder
            return super().figures(totals)
        decoder = super().figures(totals | {"loss": totals["decoder_loss"]})
        weight = self.options.encoder_loss_weight if totals["encoder_targets"] else 0.0
        targets = max(totals["encoder_targets"], 1.0)
        encoder_loss = totals["encoder_loss"] / targets
        return {
            **decoder,
            "loss": (decoder["loss"] + weight * encoder_loss) / (1 + weight),
            "decoder_loss": decoder["loss"],
            "encoder_loss": encoder_loss,
            "encoder_accuracy": totals["encoder_correct"] / targets,
        }


class EnhancedDecoder(nn.Module):
    """One transformer layer in which no token sees itself; in a second layer it would see itself through the others.

    Queries are the sentence embedding plus positions. Keys and values are the input embeddings plus positions, but the
    first is the sentence embedding, which every token sees. The residual connection adds the queries.
    """

    def __init__(
        self, config: PretrainedConfig, embedding_size: int, num_positions: int, masking: float
    ) -> None:
        """Takes the encoder's `config` for width, heads and the standard deviation of initial weights."""
        super().__init__()
        hidden_size, std = config.hidden_size, getattr(config, "initializer_range", 0.02)
        self.num_heads, self.masking = config.num_attention_heads, masking
        self.positions = nn.Embedding(num_positions, hidden_size)
        same = embedding_size == hidden_size
        self.widen = nn.Identity() if same else nn.Linear(embedding_size, hidden_size)
        self.query_norm, self.key_norm = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)
        self.query, self.key = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.value, self.output = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.attention_norm, self.norm = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)
        self.up, self.down = nn.Linear(hidden_size, 4 * hidden_size), nn.Linear(4 * hidden_size, hidden_size)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=std)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(
        self, sentence: Tensor, embeddings: Tensor, attention_mask: Tensor, row_seeds: Tensor
    ) -> Tensor:
        """Returns decoded states [B, T, H] of the sentence embedding [B, H] and the input embeddings [B, T, E]."""
        num_tokens = embeddings.shape[1]
        positions = self.positions.weight[:num_tokens]
        queries = self.query_norm(sentence[:, None] + positions)
        others = self.widen(embeddings[:, 1:]) + positions[1:]
        keys = self.key_norm(torch.cat([(sentence + positions[0])[:, None], others], dim=1))
        visible = visible_pairs(row_seeds, self.masking) & attention_mask[:, None].bool()
        projections = (self.query(queries), self.key(keys), self.value(keys))
        query, key, value = (x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in projections)
        attention = functional.scaled_dot_product_attention(query, key, value, attn_mask=visible[:, None])
        hidden = self.attention_norm(queries + self.output(attention.transpose(1, 2).flatten(2)))
        return self.norm(hidden + self.down(functional.gelu(self.up(hidden))))


def visible_pairs(row_seeds: Tensor, masking: float) -> Tensor:
    """Returns which tokens [B, T, T] each token sees: the first, never itself, others with probability 1 - masking.

    A pair is decided by a hash of the row's seed (int32 [B, T]) and the column (Wellons' 32-bit `lowbias32`).
    """
    columns = torch.arange(1, row_seeds.shape[1] + 1, dtype=torch.int32, device=row_seeds.device)
    hashes = row_seeds[:, :, None] ^ columns * -1640531527  # 2**32 / golden ratio
    for shift, multiplier in ((16, 0x7FEB352D), (15, -2073254261)):
        hashes = (hashes ^ (hashes >> shift & (1 << 32 - shift) - 1)) * multiplier
    hashes = hashes >> 8 & 2**24 - 1
    visible = hashes >= math.ceil(masking * 2**24)
    visible &= ~torch.eye(row_seeds.shape[1], dtype=torch.bool, device=row_seeds.device)
    visible[:, :, 0] = True
    return visible
