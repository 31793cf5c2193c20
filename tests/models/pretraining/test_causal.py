"""Language models of next tokens: transformers' own as oracle, and no token that sees what it should guess."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForCausalLM, BertConfig, BertLMHeadModel

from tests.models.every_encoder import tiny_config
from tests.models.tiny import OWN, tiny
from tests.objectives.samples import collator, documents, flat
from tests.support.precision import BF16, assert_close, assert_gradients_close, gradients
from tiryns.runner.data.batches import share_of
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.head import LANGUAGE_MODEL
from tiryns.runner.models.packed.attention import NAME
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.models.pretraining.causal import CausalLM

LENGTHS = [9, 24, 2, 40, 24, 5]
"""Of documents, some longer than the local attention of the tiny ModernBERT."""

READ = ("bert", "modernbert", "roberta", "albert", *OWN)
"""Encoders that are read causally; ModernBERT's layers are global and local."""

DECODERS = ("gpt2", "llama", "modernbert-decoder", "gemma3_text")


def language_model(architecture: str, objective: str = "clm", **fields: Any) -> tuple[Any, Any]:
    """A collator and its model, whose local layers see 8 tokens to each side."""
    make = collator(objective, **fields)
    if architecture in DECODERS:
        config = tiny_config(architecture)
        torch.manual_seed(0)
        return make, make.task_model(LANGUAGE_MODEL.of(config).build(config).eval())
    sizes = {"local_attention": 16, "num_hidden_layers": 4} if architecture == "modernbert" else {}
    return make, make.task_model(tiny(architecture, **sizes))


def set_up(model: CausalLM, packed: bool) -> CausalLM:
    if packed:
        model.pack_rows()
        assert model.pretrained.config._attn_implementation == NAME
    return model


def logits_of(model: CausalLM, batch: MicroBatch) -> Tensor:
    """Logits [N, V] of all tokens, document by document."""
    states = model.encode(batch)
    real = (
        batch["attention_mask"].bool() if "attention_mask" in batch else torch.ones(states.shape[:2]).bool()
    )
    return model.logits(states[real]).float()


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_loss_of_a_causal_bert_is_that_of_transformers(packed: bool) -> None:
    make, model = language_model("bert")
    theirs = BertLMHeadModel(BertConfig(**{**model.pretrained.config.to_dict(), "is_decoder": True}))
    missing = theirs.load_state_dict(model.pretrained.state_dict(), strict=False)
    assert not missing.missing_keys
    check(make, model, theirs.eval(), packed)


@pytest.mark.rows(4)
@pytest.mark.parametrize("architecture", DECODERS)
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_loss_of_a_decoder_is_that_of_transformers(architecture: str, packed: bool) -> None:
    make, model = language_model(architecture)
    theirs = AutoModelForCausalLM.from_config(model.pretrained.config)
    theirs.load_state_dict(model.pretrained.state_dict())
    assert model.direction is None
    check(make, model, theirs.eval(), packed)


def check(make: Any, ours: CausalLM, theirs: Any, packed: bool) -> None:
    """Their sum over documents, each alone, of the loss of next tokens that are no special tokens."""
    texts = documents(LENGTHS)
    total = torch.zeros(())
    for text in texts:
        ids = torch.from_numpy(text)[None]
        labels = ids.masked_fill(torch.from_numpy(make.is_special[text])[None], -100)
        count = int((labels[:, 1:] != -100).sum())
        if count:
            total = total + theirs(input_ids=ids, labels=labels).loss * count
    total.backward()
    sums = set_up(ours, packed)(make(flat(texts, packed=packed)))
    sums["loss"].backward()
    assert_close(sums["loss"], total, rtol=1e-5, atol=1e-4)
    assert_gradients_close(gradients(ours.pretrained), gradients(theirs))


@pytest.mark.rows(3)
@pytest.mark.parametrize("architecture", [*READ, *DECODERS])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_no_token_sees_a_later_one_or_another_document(architecture: str, packed: bool) -> None:
    """Another token at any place leaves all logits before it, and of all other documents, as they were."""
    make, model = language_model(architecture)
    model = set_up(model, packed)
    texts = documents(LENGTHS)
    starts = [sum(LENGTHS[:i]) for i in range(len(LENGTHS))]
    with torch.no_grad():
        before = logits_of(model, make(flat(texts, packed=packed)))
        for document, place in ((0, 1), (1, 12), (3, 0), (3, 20), (3, 39), (5, 4)):
            changed = [text.copy() for text in texts]
            changed[document][place] = 5 + (changed[document][place] + 7) % 100
            after = logits_of(model, make(flat(changed, packed=packed)))
            differs = (after != before).any(-1)
            at = starts[document] + place
            assert differs[at], "a token sees itself"
            seen = differs.nonzero()[:, 0].tolist()
            assert min(seen) == at, f"{architecture}: token {min(seen)} saw token {at}"
            assert max(seen) < starts[document] + LENGTHS[document], "another document saw it"


def test_what_is_read_both_ways_does_see_later_tokens() -> None:
    """The leak test can fail: without its direction the same model fails it."""
    make, model = language_model("modernbert")
    texts = documents(LENGTHS)
    changed = [text.copy() for text in texts]
    changed[3][20] = 5 + (changed[3][20] + 7) % 100
    model.causal = False
    with torch.no_grad():
        before, after = (logits_of(model, make(flat(some))) for some in (texts, changed))
    seen = (after != before).any(-1).nonzero()[:, 0]
    assert int(seen.min()) < sum(LENGTHS[:3]) + 20


def hybrid_batch(make: Any, packed: bool, indices: list[int] | None = None, **more: Any) -> MicroBatch:
    """Some of eight documents, of which every second one is causal on average."""
    texts = documents([9, 24, 2, 40, 24, 5, 17, 31])
    indices = list(range(len(texts))) if indices is None else indices
    places: dict[str, Any] = {
        "batch_places": torch.tensor(indices).numpy(),
        "batch_size": len(texts),
        "batch_key": 5,
    }
    return make(flat(texts, indices=indices, packed=packed, **places, **more))


@pytest.mark.rows(4)
@pytest.mark.parametrize("architecture", READ)
@pytest.mark.parametrize("shifted", [True, False])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_hybrid_loss_is_its_formula(architecture: str, shifted: bool, packed: bool) -> None:
    """(1 - s) times the mean over masked targets and s times that over next tokens, document by document."""
    settings = {"causal_share": 0.375, "shifted": shifted, "z_loss": 1e-2, "mlm_probability": 0.5}
    make, model = language_model(architecture, "hybrid", **settings)
    _, causal = language_model(architecture)
    both = tiny(
        architecture,
        **({"local_attention": 16, "num_hidden_layers": 4} if architecture == "modernbert" else {}),
    )
    batch = hybrid_batch(make, packed=False)
    parts: dict[bool, list[Tensor]] = {True: [], False: []}
    for row, (ids, labels, length) in enumerate(
        zip(batch["input_ids"], batch["labels"], batch["attention_mask"].sum(1), strict=True)
    ):
        way = bool(batch["causal"][row])
        reader = causal.pretrained if way else both
        if way:
            causal.direction.causal = True
        logits = reader(input_ids=ids[None, :length]).logits[0].float()
        chosen = labels[:length] != -100
        losses = functional.cross_entropy(logits[chosen], labels[:length][chosen], reduction="none")
        parts[way].append(losses + 1e-2 * logits[chosen].logsumexp(-1).square())
    masked, following = (torch.cat(parts[way]).mean() for way in (False, True))
    assert len(parts[True]) == 3, "of eight"
    found = hybrid_batch(make, packed)
    model.train().pretrained.eval()  # without dropout
    sums = set_up(model, packed)(found)
    assert_close(sums["loss"] / found["weight"], 0.625 * masked + 0.375 * following, rtol=1e-5, atol=1e-5)


CUTS = [[[0, 1, 2, 3, 4, 5, 6, 7]], [[5, 0, 6], [2], [7, 1, 3, 4]], [[i] for i in range(8)]]


@pytest.mark.rows(1)
@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("objective", ["clm", "hybrid"])
@pytest.mark.parametrize("architecture", ["bert", "modernbert", "gpt_bert"])
def test_gradients_do_not_depend_on_the_cut_with_dropout(objective: str, architecture: str) -> None:
    names = (
        "hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout", "embedding_dropout",
        "mlp_dropout",
    )  # fmt: skip
    settings = {"causal_share": 0.375} if objective == "hybrid" else {}
    found = []
    for packed in (False, True):
        for cut in CUTS:
            make = collator(objective, **settings)
            dropout: dict[str, Any] = dict.fromkeys(names, 0.2)
            pretrained = tiny(architecture, **dropout).train()
            made: Any = make.task_model(pretrained)
            model = set_up(made, packed)
            batches = [hybrid_batch(make, packed, some) for some in cut]
            share = share_of(batches)
            model.train()
            for batch in share["micro_batches"]:
                with dropout_keys(batch, 11):
                    (model(batch)["loss"] / share["weight"]).backward()
            found.append(gradients(pretrained))
    for other in found[1:]:
        assert_gradients_close(other, found[0])


def test_a_decoder_cannot_be_hybrid_and_some_encoders_cannot_be_causal() -> None:
    with pytest.raises(ValueError, match="is a decoder, which cannot read both ways"):
        language_model("llama", "hybrid")
    with pytest.raises(ValueError, match=r"deberta-v2.* cannot be read causally"):
        language_model("deberta-v2")


def test_evaluation_of_a_hybrid_measures_both_parts_of_every_sample() -> None:
    make, model = language_model("bert", "hybrid", causal_share=0.25)
    batch = hybrid_batch(make, packed=False, evaluation=True)
    assert batch["causal"].tolist() == [False] * 8 + [True] * 8
    with torch.no_grad():
        sums = model.eval()(batch)
    totals = {name: float(value) for name, value in {**sums, **batch["denominators"]}.items()}
    figures = model.figures({**totals, "weight": batch["weight"]})
    clm, causal = language_model("bert")
    alone = clm(flat(documents([9, 24, 2, 40, 24, 5, 17, 31])))
    with torch.no_grad():
        expected = causal.eval()(alone)
    assert figures["clm_loss"] == pytest.approx(
        float(expected["loss"]) / alone["weight"], rel=1e-2 if BF16 else 1e-5
    )
    assert figures["loss"] == pytest.approx(0.75 * figures["mlm_loss"] + 0.25 * figures["clm_loss"])
    assert {"accuracy", "perplexity", "mlm_accuracy", "clm_accuracy"} <= figures.keys()
