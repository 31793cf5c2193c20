from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.models.tiny import tiny
from tests.objectives.samples import MASK, PAD, VOCABULARY, collator, documents, flat
from tiryns.conf.registry import OPTIONS
from tiryns.runner.objectives import get_collator_cls
from tiryns.runner.objectives.base import Collator
from tiryns.runner.objectives.rows import IGNORED

LENGTHS = [5, 9, 3, 12, 2, 7, 7, 4]


def test_rows_hold_the_samples_padded_to_the_longest() -> None:
    texts = documents([4, 6, 2])
    batch = collator("enhanced_mlm")(flat(texts))
    assert batch["input_ids"].shape == (3, 6)
    for text, ids, mask in zip(texts, batch["input_ids"], batch["attention_mask"], strict=True):
        assert ids.tolist() == [*text, *[PAD] * (6 - len(text))]
        assert mask.tolist() == [1] * len(text) + [0] * (6 - len(text))
    assert (batch["tokens"], batch["padded_tokens"]) == (12, 18)


@pytest.mark.parametrize("objective", ["mlm", "enhanced_mlm", "diffusion"])
def test_targets_lie_where_the_labels_are(objective: str) -> None:
    texts = documents(LENGTHS)
    batch = collator(objective)(flat(texts))
    labels = batch["labels"].flatten()
    assert batch["target_positions"].tolist() == (labels != IGNORED).nonzero().flatten().tolist()
    assert labels[batch["target_positions"]].equal(batch["targets"])
    original = torch.tensor(np.concatenate([[*text, *[PAD] * (12 - len(text))] for text in texts]))
    assert original[batch["target_positions"]].equal(batch["targets"])
    assert len(batch["targets"]) > 0


@pytest.mark.parametrize("objective", ["mlm", "enhanced_mlm", "diffusion"])
def test_a_filler_counts_nothing(objective: str) -> None:
    batch = collator(objective)(flat(documents([9, 9]), filler=True))
    assert len(batch["targets"]) == 0
    assert len(batch.get("encoder_targets", [])) == 0
    assert [batch[n] for n in ("weight", "tokens", "padded_tokens", "hash_low", "hash_high")] == [0] * 5
    assert batch["input_ids"].shape == (2, 9), "the model still has something to run on"


@pytest.mark.rows(1)
@pytest.mark.parametrize("objective", ["mlm", "enhanced_mlm", "diffusion"])
@given(cut=st.lists(st.integers(0, 3), min_size=len(LENGTHS), max_size=len(LENGTHS)))
def test_hashes_and_weights_add_up_for_every_cut(objective: str, cut: list[int]) -> None:
    texts, make = documents(LENGTHS), collator(objective)
    place: Any = {"batch_size": len(LENGTHS), "batch_key": 5}
    names = ("hash_low", "hash_high", "weight", "tokens")
    whole: Any = make(flat(texts, batch_places=np.arange(len(LENGTHS)), **place))
    groups = [[i for i, part in enumerate(cut) if part == p] for p in set(cut)]
    parts: Any = [make(flat(texts, indices=g, batch_places=np.array(g), **place)) for g in groups]
    assert [sum(part[name] for part in parts) for name in names] == [whole[name] for name in names]


def test_hashes_see_token_key_label_and_order_within_a_sample() -> None:
    texts = documents(LENGTHS)
    make = collator("mlm")
    known = {
        (batch["hash_low"], batch["hash_high"]) for batch in [make(flat(texts)), make(flat(texts, epoch=1))]
    }
    texts[3][4] += -1 if texts[3][4] > 100 else 1
    known |= {(batch["hash_low"], batch["hash_high"]) for batch in [make(flat(texts))]}
    texts[1][1:3] = texts[1][2:0:-1]
    known |= {(batch["hash_low"], batch["hash_high"]) for batch in [make(flat(texts))]}
    assert len(known) == 4


class FirstTokens(Collator):
    """Predicts the first token of each sample and masks it; says so of padded rows alone, as a user's own may."""

    def compute_labels(self, tokenized: dict[str, Any]) -> dict[str, Any]:
        ids, labels = tokenized["input_ids"].clone(), torch.full_like(tokenized["input_ids"], IGNORED)
        assert tokenized["attention_mask"].sum(1).tolist() == [4, 6, 2]
        assert len(tokenized["keys"]) == 3
        labels[:, 0], ids[:, 0] = ids[:, 0], MASK
        return {"input_ids": ids, "labels": labels}


@pytest.mark.parametrize("packed", [False, True])
def test_collator_that_makes_rows_alone_makes_micro_batches_too(packed: bool) -> None:
    given: dict[str, Any] = {"pad_token_id": PAD, "mask_token_id": MASK, "vocab_size": VOCABULARY}
    texts = documents([4, 6, 2])
    batch = FirstTokens(**given).micro_batch(flat(texts, packed=packed))
    assert batch["targets"].tolist() == [text[0] for text in texts]
    assert batch["target_positions"].tolist() == ([0, 4, 10] if packed else [0, 6, 12])
    real = batch["input_ids"].flatten() if packed else batch["input_ids"][batch["attention_mask"].bool()]
    assert real.tolist() == [token for text in texts for token in (MASK, *text[1:])]
    assert batch["weight"] == 3


def test_misspelt_objective_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(ValueError, match=r"objective='difusion'; .*token_classification.*mean 'diffusion'"):
        get_collator_cls("difusion")


def test_tokens_of_the_vocabulary_alone_are_taken() -> None:
    make = collator("mlm")
    make.check_tokens(torch.tensor([[0, VOCABULARY - 1]]))
    make.check_tokens(torch.empty(0, dtype=torch.long))
    for token in (-1, VOCABULARY):
        with pytest.raises(ValueError, match=f"token {token} is not in the vocabulary of {VOCABULARY}"):
            make.check_tokens(torch.tensor([[5, token, 7]]))


def test_a_mask_token_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match=f"mask_token_id {MASK} is not in the vocabulary of 3"):
        collator("mlm", vocab_size=3)


@pytest.mark.parametrize(
    ("objective", "fields"),
    [
        ("mlm", {}),
        ("diffusion", {}),
        ("enhanced_mlm", {}),
        ("enhanced_mlm", {"encoder_mlm_probability": 0.0}),
    ],
)
def test_figures_are_known_before_any_batch(objective: str, fields: dict[str, Any]) -> None:
    make = collator(objective, **fields)
    model = make.task_model(tiny()).eval()
    batch = make(flat(documents(LENGTHS), evaluation=True))
    with torch.no_grad():
        totals: dict[str, float] = {name: float(value) for name, value in model(batch).items()}
        totals["weight"] = float(batch["weight"])
    assert model.figure_names() == list(model.figures(totals))
    assert model.figure_names()[0] == "loss"


def test_a_loss_is_compared_with_the_unigram_entropy_where_its_objective_says_so() -> None:
    """A subclass, whose loss may be another, says it anew."""
    from tiryns.runner.loop.assembly import baselines_of

    data = SimpleNamespace(
        baselines=lambda: {"val/books/majority_accuracy": 0.5},
        token_baselines=lambda: {"val/books/unigram_entropy": 5.9},
    )
    mlm = get_collator_cls("mlm")
    silent, outspoken = (type("Own", (mlm,), fields) for fields in ({}, {"nats_per_token": True}))
    compared = {
        name
        for name in OPTIONS["objective"]
        if "val/books/unigram_entropy" in baselines_of(data, get_collator_cls(name))
    }
    assert compared == {"mlm", "enhanced_mlm", "diffusion", "clm", "hybrid", "distillation"}
    assert baselines_of(data, silent) == data.baselines()
    assert baselines_of(data, outspoken) == data.baselines() | data.token_baselines()


@pytest.mark.parametrize(
    ("objective", "fields", "problem"),
    [
        ("mlm", {"mlm_probability": 0.0}, r"mlm_probability must be a number in \(0, 1\], not 0.0"),
        ("mlm", {"mlm_probability": 1.5}, r"mlm_probability must be a number in \(0, 1\], not 1.5"),
        ("enhanced_mlm", {"encoder_loss_weight": -1.0}, "encoder_loss_weight must be"),
        ("enhanced_mlm", {"pooling": "max"}, "pooling must be"),
        ("clm", {"z_loss": -1.0}, "z_loss must be"),
        ("hybrid", {"causal_share": 1.5}, "causal_share must be"),
        ("diffusion", {"num_steps": 1}, "num_steps must be"),
        (
            "diffusion",
            {"min_masked": 5, "max_masked": 3},
            r"min_masked=5 is more than objective\.max_masked=3",
        ),
    ],
)
def test_a_setting_out_of_range_is_named(objective: str, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=rf"objective\.{problem}"):
        collator(objective, **fields)


def test_misspelt_argument_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(ValueError, match=r"'mlm_probabilty'\. Did you mean 'mlm_probability'\?"):
        get_collator_cls("mlm")(PAD, MASK, VOCABULARY, mlm_probabilty=0.2)
