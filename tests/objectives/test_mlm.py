from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertForMaskedLM

from tests.objectives.samples import END, MASK, SPECIAL, START, VOCABULARY, collator, documents, flat
from tiryns.runner.objectives.rows import IGNORED

pytestmark = pytest.mark.usefixtures("precision_of_training")
LENGTHS = [5, 9, 3, 12, 2, 7, 7, 4]


def test_of_the_targets_eighty_percent_are_masked_ten_random_ten_kept() -> None:
    tokenized = flat(documents([400] * 500))
    out = collator("mlm", mlm_probability=0.3).flat_labels(tokenized)
    ids, labels = tokenized["input_ids"], out["labels"]
    chosen = labels != IGNORED
    ordinary = ~np.isin(ids, SPECIAL)
    assert (labels[chosen] == ids[chosen]).all()
    assert (out["input_ids"][~chosen] == ids[~chosen]).all()
    assert chosen.sum() / ordinary.sum() == pytest.approx(0.3, abs=0.004)
    seen, truth = out["input_ids"][chosen], ids[chosen]
    masked, kept = seen == MASK, seen == truth
    assert masked.mean() == pytest.approx(0.8, abs=0.006)
    assert kept.mean() == pytest.approx(0.1 + 0.1 / 195, abs=0.005)
    counts = np.bincount(seen[~masked & ~kept], minlength=VOCABULARY)
    assert counts[len(SPECIAL) :].min() > 0.3 * counts[len(SPECIAL) :].mean() > 1, (
        "every ordinary token is drawn"
    )


def test_targets_become_masks_and_random_tokens_in_the_shares_asked_for() -> None:
    texts = documents([400] * 200)
    tokenized = flat(texts)
    for settings, masks, kept in (
        ({"mask_share": 1.0}, 1.0, 0.0),
        ({"mask_share": 0.5, "random_share": 0.5}, 0.5, 0.5 / 195),
        ({"mask_share": 0.6}, 0.6, 0.2 + 0.2 / 195),
        ({"random_share": 0.0}, 0.8, 0.2),
        ({"mask_share": 0.0, "random_share": 0.0}, 0.0, 1.0),
    ):
        out = collator("mlm", **settings).flat_labels(tokenized)
        chosen = out["labels"] != IGNORED
        seen = out["input_ids"][chosen]
        assert (seen == MASK).mean() == pytest.approx(masks, abs=0.01)
        assert (seen == out["labels"][chosen]).mean() == pytest.approx(kept, abs=0.006)
        assert not np.isin(seen[seen != MASK], SPECIAL).any()
    assert (seen == out["labels"][chosen]).all(), "without a share no target changes"
    written_out = collator("mlm", mask_share=0.8, random_share=0.1).flat_labels(tokenized)
    assert (written_out["input_ids"] == collator("mlm").flat_labels(tokenized)["input_ids"]).all()


def test_validation_has_a_rate_of_its_own() -> None:
    """Runs that train at other rates are validated on the very same masks."""
    texts = flat(documents([400] * 300), evaluation=True)
    low, high = (collator("mlm", mlm_probability=rate).flat_labels(texts) for rate in (0.3, 0.5))
    assert all((low[name] == high[name]).all() for name in ("input_ids", "labels"))
    ordinary = ~np.isin(texts["input_ids"], SPECIAL)
    assert (low["labels"] != IGNORED).sum() / ordinary.sum() == pytest.approx(0.15, abs=0.004)
    other = collator("mlm", validation_mlm_probability=0.4).flat_labels(texts)
    assert (other["labels"] != IGNORED).sum() / ordinary.sum() == pytest.approx(0.4, abs=0.004)


def test_rate_follows_a_line_over_the_run_but_in_validation() -> None:
    texts, changing = documents([400] * 300), collator("mlm", mlm_probability=0.4, final_mlm_probability=0.1)
    for progress, rate in ((0.0, 0.4), (0.5, 0.25), (1.0, 0.1)):
        tokenized = flat(texts) | {"progress": progress}
        out, constant = (
            each.flat_labels(tokenized) for each in (changing, collator("mlm", mlm_probability=rate))
        )
        assert all((out[name] == constant[name]).all() for name in ("input_ids", "labels"))
    held_out = flat(texts, evaluation=True) | {"progress": 0.5}
    assert (changing.flat_labels(held_out)["labels"] == collator("mlm").flat_labels(held_out)["labels"]).all()


@given(st.integers(0, 2**32), st.floats(0.05, 1.0))
def test_special_tokens_are_neither_chosen_nor_inserted(seed: int, probability: float) -> None:
    texts = documents([1, 2, 3, 40], seed)
    texts.append(np.array([START, *SPECIAL, 17, END]))
    tokenized = flat(texts, epoch=seed)
    out = collator("mlm", mlm_probability=probability).flat_labels(tokenized)
    chosen = out["labels"] != IGNORED
    assert not np.isin(tokenized["input_ids"][chosen], SPECIAL).any()
    inserted = out["input_ids"][chosen]
    assert not np.isin(inserted[inserted != MASK], SPECIAL).any()


@pytest.mark.parametrize("objective", ["mlm", "enhanced_mlm"])
@given(order=st.permutations(range(len(LENGTHS))), size=st.integers(1, len(LENGTHS)))
def test_masks_follow_the_sample_whatever_the_grouping_padding_and_order(
    objective: str, order: list[int], size: int
) -> None:
    texts, make = documents(LENGTHS), collator(objective)
    names = ("input_ids", "labels") if objective == "mlm" else ("row_seeds", "encoder_input_ids")
    whole: Any = make(flat(texts))
    for start in range(0, len(order), size):
        group = order[start : start + size]
        part: Any = make(flat(texts, indices=group))
        for row, i in enumerate(group):
            for name in names:
                assert part[name][row, : LENGTHS[i]].equal(whole[name][i, : LENGTHS[i]])


def test_every_epoch_has_masks_of_its_own() -> None:
    texts, make = documents([300] * 20), collator("mlm", mlm_probability=0.5)
    first, second = ((make(flat(texts, epoch=epoch))["labels"] != IGNORED).double() for epoch in (0, 1))
    both = (first * second)[:, 1:-1].mean()
    assert float(both) == pytest.approx(0.25, abs=0.02), "independent of each other"


def test_no_target_weighs_nothing_and_loses_nothing() -> None:
    texts = [np.array([START, END]), np.array([START, MASK, END])]
    make = collator("mlm")
    batch = make(flat(texts))
    assert batch["weight"] == 0
    sizes: Any = {
        "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16,
    }  # fmt: skip
    model = make.task_model(BertForMaskedLM(BertConfig(vocab_size=VOCABULARY, **sizes)))
    out = model(batch)
    out["loss"].backward()
    assert out["loss"].item() == 0
    assert out["correct"].item() == 0
    grads = [p.grad for p in model.parameters() if p.requires_grad]
    assert all(g is not None and torch.isfinite(g).all() for g in grads), (
        "no process waits for a missing gradient"
    )
