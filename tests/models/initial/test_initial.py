"""Initial weights: published schemes, tiling, and another vocabulary are those of their formulas."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedTokenizerFast

from tests.models.tiny import OWN
from tiryns.runner.models.encoder import load_encoder
from tiryns.runner.models.initial.schemes import initialise
from tiryns.runner.models.initial.tiling import tile
from tiryns.runner.models.initial.vocabulary import fit_vocabulary, sources_of

SHAPE = {
    "vocab_size": 50, "pad_token_id": 0, "max_position_embeddings": 40, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip


def made(architecture: str, layers: int, heads: int, seed: int = 0, **fields: Any) -> Any:
    """An encoder with heads of 8; its norms and biases are not 1 and 0."""
    torch.manual_seed(seed)
    size = {"hidden_size": 8 * heads, "num_hidden_layers": layers, "num_attention_heads": heads}
    known = {**SHAPE, **size, "intermediate_size": 12 * heads, **fields}
    known = {
        name: value for name, value in known.items() if hasattr(AutoConfig.for_model(architecture), name)
    }
    model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(architecture, **known))
    for p in model.parameters():
        if p.ndim < 2:
            p.data.uniform_(0.5, 1.5)
    return model


def spread(model: Any, name: str) -> tuple[float, float]:
    """Standard deviation of a weight, and its largest magnitude."""
    weight = model.get_parameter(name).detach()
    return float(weight.std()), float(weight.abs().max())


CUT = 0.8796256610342398
"""Standard deviation of a normal distribution cut at two of its own."""


def expect(model: Any, name: str, std: float) -> None:
    found, largest = spread(model, name)
    assert found == pytest.approx(CUT * std, rel=0.05), name
    assert 1.9 * std < largest <= 2 * std * 1.0001, name


def test_megatron_is_its_formula() -> None:
    model = made("bert", layers=3, heads=8)
    norm = model.bert.encoder.layer[0].output.LayerNorm.weight.detach().clone()
    initialise(model, "megatron")
    layer = "bert.encoder.layer.2."
    for name in ("attention.self.query", "attention.self.value", "intermediate.dense"):
        expect(model, f"{layer}{name}.weight", 0.02)
    for name in ("attention.output.dense", "output.dense"):
        expect(model, f"{layer}{name}.weight", 0.02 / math.sqrt(6))
    table = model.get_input_embeddings().weight
    expect(model, "bert.embeddings.word_embeddings.weight", 0.02)
    assert not table[0].any()
    assert table[1].any()
    assert torch.equal(model.bert.encoder.layer[0].output.LayerNorm.weight, norm)
    untied = made("modernbert", layers=2, heads=8, tie_word_embeddings=False)
    initialise(untied, "megatron")
    expect(untied, "decoder.weight", 64**-0.5)
    expect(untied, "model.layers.1.mlp.Wo.weight", 0.02 / 2)


def test_gpt_bert_is_its_formula() -> None:
    model = made("modernbert", layers=3, heads=8)
    initialise(model, "gpt_bert")
    std = math.sqrt(2 / (5 * 64))
    for i in range(3):
        expect(model, f"model.layers.{i}.attn.Wo.weight", std)
        for name in ("Wi", "Wo"):
            expect(model, f"model.layers.{i}.mlp.{name}.weight", std * math.sqrt(1 / (2 * (1 + i))))
    expect(model, "model.embeddings.tok_embeddings.weight", std)


@pytest.mark.parametrize(
    "architecture",
    ["bert", "roberta", "electra", "distilbert", "modernbert", "nomic_bert", "deberta-v2", *OWN],
)
def test_schemes_know_the_encoders(architecture: str) -> None:
    fields = (
        {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32} if architecture == "distilbert" else {}
    )
    for scheme in ("megatron", "gpt_bert"):
        initialise(made(architecture, 2, 2, **fields), scheme)
    odd = made("bert", 2, 2)
    odd.bert.encoder.layer[1].output.extra = torch.nn.Linear(4, 4)
    odd.bert.encoder.layer[1].output.extra.out_proj = torch.nn.Linear(4, 4)
    message = r"model.init=megatron: the layers of 'bert' have matrices of other names"
    with pytest.raises(ValueError, match=message):
        initialise(odd, "megatron")


def moved(old: Tensor, axis: int, size: int, offset: int) -> Tensor:
    return torch.stack([old.select(axis, (j - offset) % old.shape[axis]) for j in range(size)], axis)


def test_bert_is_tiled_by_layers_and_from_the_middle() -> None:
    old, new = made("bert", 2, 4), made("bert", 5, 7, seed=1, max_position_embeddings=90)
    tile(new, old)
    layers = [min(round(i * 2 / 5), 1) for i in range(5)]
    assert layers == [0, 0, 1, 1, 1]
    for i, j in enumerate(layers):
        ours, theirs = new.bert.encoder.layer[i], old.bert.encoder.layer[j]
        # (56 - 32) // 2 = 12, at the edge of a head of 8
        query = moved(moved(theirs.attention.self.query.weight, 0, 56, 8), 1, 56, 8)
        assert torch.equal(ours.attention.self.query.weight, query)
        feed = moved(moved(theirs.intermediate.dense.weight, 0, 84, 18), 1, 56, 8)
        assert torch.equal(ours.intermediate.dense.weight, feed)
        assert torch.equal(ours.output.LayerNorm.bias, moved(theirs.output.LayerNorm.bias, 0, 56, 8))
    positions = moved(moved(old.bert.embeddings.position_embeddings.weight, 0, 90, 0), 1, 56, 8)
    assert torch.equal(new.bert.embeddings.position_embeddings.weight, positions)
    assert torch.equal(new.cls.predictions.bias, old.cls.predictions.bias)
    assert new.get_output_embeddings().weight is new.get_input_embeddings().weight


def test_fused_matrices_of_modernbert_are_tiled_apart() -> None:
    old, new = made("modernbert", 2, 2, norm_bias=True), made("modernbert", 5, 4, seed=1, norm_bias=True)
    kept = new.model.layers[1].attn_norm.weight.detach().clone()
    tile(new, old)
    layers = [0, 0, 1, 1, 1]
    for ours, j in zip(new.model.layers, layers, strict=True):
        theirs = old.model.layers[j]
        qkv = [moved(moved(part, 0, 32, 8), 1, 32, 8) for part in theirs.attn.Wqkv.weight.chunk(3)]
        assert torch.equal(ours.attn.Wqkv.weight, torch.cat(qkv))
        halves = [moved(moved(part, 0, 48, 12), 1, 32, 8) for part in theirs.mlp.Wi.weight.chunk(2)]
        assert torch.equal(ours.mlp.Wi.weight, torch.cat(halves))
    assert torch.equal(new.model.layers[1].attn_norm.weight, kept), "the first layer has none"


def test_what_cannot_be_tiled_is_told() -> None:
    old = made("bert", 2, 4)
    for other, message in [
        (made("roberta", 2, 4), "a 'bert' cannot fill a 'roberta'"),
        (made("bert", 2, 2), "hidden_size=16 is below the 32 there"),
        (
            made("bert", 2, 4, hidden_size=64),
            "heads are 8 wide there and 16 wide here; model.num_attention_heads=8",
        ),
        (made("bert", 2, 4, vocab_size=60), "has a side of 50 there and 60 here"),
    ]:
        with pytest.raises(ValueError, match=message):
            tile(other, old)


ROLES = ("pad", "unk", "cls", "sep", "mask")
SPECIAL = {f"{role}_token": f"[{role.upper()}]" for role in ROLES}
WORDS = [*SPECIAL.values(), "river", "stone", "her", "##on", "##s", "heron", "bridge"]


def word_piece(words: list[str], **special: str) -> PreTrainedTokenizerFast:
    vocabulary = {word: number for number, word in enumerate(words)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token=special["unk_token"]))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


OLD = word_piece(WORDS, **SPECIAL)
NEW = word_piece(
    ["<pad>", "<unk>", "[CLS]", "[SEP]", "heron", "herons", "quartz", "##stone", "<mask>", "river", *"abc", "her"],
    pad_token="<pad>", unk_token="<unk>", cls_token="[CLS]", sep_token="[SEP]", mask_token="<mask>",
)  # fmt: skip


def test_tokens_are_copied_or_means_or_drawn() -> None:
    sources = sources_of(OLD, NEW)
    by_token = {NEW.convert_ids_to_tokens(i): OLD.convert_ids_to_tokens(ids) for i, ids in enumerate(sources)}
    assert by_token["<pad>"] == ["[PAD]"]
    assert by_token["<mask>"] == ["[MASK]"]
    assert by_token["heron"] == ["heron"]
    assert by_token["herons"] == ["heron", "##s"]
    assert by_token["##stone"] == ["stone"]
    assert by_token["quartz"] == []


def test_a_tokenizer_of_other_tokens_is_refused(tmp_path: Path) -> None:
    made("bert", 2, 2, vocab_size=len(OLD) + len(NEW)).save_pretrained(tmp_path)
    load_encoder(str(tmp_path), {}, NEW, new_vocabulary=False)  # what its tokens are is not known
    OLD.save_pretrained(tmp_path)
    load_encoder(str(tmp_path), {}, OLD, new_vocabulary=False)
    with pytest.raises(
        ValueError, match=r"only \d of the tokenizer's \d+ tokens have the ids .* data\.tokenizer="
    ):
        load_encoder(str(tmp_path), {}, NEW, new_vocabulary=False)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_takes_the_embeddings_of_a_new_vocabulary(tmp_path: Path, tied: bool) -> None:
    model = made("bert", 2, 2, vocab_size=len(OLD), tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    OLD.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"model.new_vocabulary=true"):
        load_encoder(str(tmp_path), {}, NEW, new_vocabulary=False)
    found: Any = load_encoder(str(tmp_path), {}, NEW, new_vocabulary=True)
    numbers = NEW.get_vocab()
    pairs: list[Any] = [(model.get_input_embeddings(), found.get_input_embeddings())]
    pairs += [] if tied else [(model.get_output_embeddings(), found.get_output_embeddings())]
    for theirs, ours in pairs:
        assert len(ours.weight) == len(NEW)
        assert torch.equal(ours.weight[numbers["river"]], theirs.weight[WORDS.index("river")])
        mean = (theirs.weight[WORDS.index("heron")] + theirs.weight[WORDS.index("##s")]) / 2
        assert torch.equal(ours.weight[numbers["herons"]], mean)
        assert not torch.equal(ours.weight[numbers["quartz"]], ours.weight[numbers["a"]])
    ours, theirs = (one.get_output_embeddings().bias for one in (found, model))
    assert torch.equal(ours[numbers["<mask>"]], theirs[WORDS.index("[MASK]")])
    assert (found.get_output_embeddings().weight is found.get_input_embeddings().weight) == tied
    assert (found.config.vocab_size, found.config.cls_token_id) == (len(NEW), numbers["[CLS]"])
    assert found(torch.tensor([[2, 5, 3]])).logits.shape[-1] == len(NEW)
    found.save_pretrained(tmp_path / "again")
    again = AutoModelForMaskedLM.from_pretrained(tmp_path / "again")
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), found.parameters(), strict=True))


def test_a_model_that_counts_positions_from_padding_keeps_its_id() -> None:
    moved_pad = word_piece([*WORDS[1:], "[PAD]"], **SPECIAL)
    with pytest.raises(ValueError, match=r"'roberta' counts positions from the id of padding, 0; .* is 11"):
        fit_vocabulary(made("roberta", 2, 2, vocab_size=len(OLD)), OLD, moved_pad)
