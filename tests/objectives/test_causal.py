"""Targets of causal and hybrid language modelling."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.data.test_module import Counted
from tests.objectives.samples import MASK, SPECIAL, collator, documents, flat
from tiryns.runner.data.batches import GlobalBatches
from tiryns.runner.objectives.rows import IGNORED
from tiryns.runner.samplers import Shuffled

LENGTHS = [5, 9, 3, 12, 2, 7, 7, 4]


def labels_of(batch: Any) -> list[list[int]]:
    """The labels of each document, without padding."""
    return [
        row[: int(mask.sum())].tolist()
        for row, mask in zip(batch["labels"], batch["attention_mask"], strict=True)
    ]


def test_every_ordinary_token_is_guessed_at_the_one_before() -> None:
    texts = documents(LENGTHS)
    batch = collator("clm")(flat(texts))
    for text, labels in zip(texts, labels_of(batch), strict=True):
        following = [*text[1:].tolist(), SPECIAL[0]]
        assert labels == [IGNORED if token in SPECIAL else token for token in following]
    assert batch["weight"] == sum(length - 2 for length in LENGTHS)


def test_no_target_moves_to_the_document_before() -> None:
    """Documents that begin with an ordinary token: the first one is no target, as nothing is before it."""
    texts = [text[1:-1] for text in documents([6, 5, 4])]
    for objective in ("clm", "hybrid"):
        fields: dict[str, Any] = (
            {"causal_share": 0.0, "mlm_probability": 1.0} if objective == "hybrid" else {}
        )
        batch = collator(objective, **fields)(flat(texts, packed=True))
        ends = batch["cu_seqlens"][1:].long() - 1
        assert batch["labels"][0, ends].tolist() == [IGNORED] * 3
        assert batch["weight"] == sum(len(text) - 1 for text in texts)


def hybrid(texts: list[np.ndarray], places: list[int] | None = None, key: int = 3, **fields: Any) -> Any:
    places = list(range(len(texts))) if places is None else places
    more: dict[str, Any] = {"batch_places": np.array(places), "batch_size": len(texts), "batch_key": key}
    return collator("hybrid", **fields)(flat(texts, indices=places, **more))


@pytest.mark.parametrize("shifted", [True, False])
def test_masked_documents_are_those_of_mlm_and_causal_ones_those_of_clm(shifted: bool) -> None:
    texts = documents([40] * 32)
    batch = hybrid(texts, causal_share=0.25, shifted=shifted, mlm_probability=0.4)
    masked, causal = collator("mlm", mlm_probability=0.4)(flat(texts)), collator("clm")(flat(texts))
    assert int(batch["causal"].sum()) == 8
    for row, way in enumerate(batch["causal"].tolist()):
        of_way = causal if way else masked
        assert batch["input_ids"][row].equal(of_way["input_ids"][row])
        labels = of_way["labels"][row]
        moved = torch.cat([labels[1:], torch.tensor([IGNORED])]) if shifted and not way else labels
        assert batch["labels"][row].equal(moved)
        assert (MASK in batch["input_ids"][row]) == (not way)
    assert batch["denominators"] == {
        "mlm_targets": float((batch["labels"][~batch["causal"]] != IGNORED).sum()), "clm_targets": 8 * 38.0,
    }  # fmt: skip


@given(st.permutations(range(len(LENGTHS))), st.integers(1, len(LENGTHS)), st.integers(0, 2**63))
def test_ways_follow_the_place_whatever_the_grouping(order: list[int], size: int, key: int) -> None:
    texts = documents(LENGTHS)
    fields: dict[str, Any] = {"causal_share": 0.375, "mlm_probability": 0.5}
    whole = labels_of(hybrid(texts, key=key, **fields))
    for start in range(0, len(order), size):
        group = order[start : start + size]
        assert labels_of(hybrid(texts, group, key, **fields)) == [whole[i] for i in group]


def test_the_share_is_exact_on_average_and_every_place_is_as_likely() -> None:
    make: Any = collator("hybrid", causal_share=0.3)
    found = np.array(
        [make.causal_samples({"lengths": np.ones(5), "batch_key": key * 77}) for key in range(4000)]
    )
    assert set(found.sum(1)) == {1, 2}
    assert found.mean() == pytest.approx(0.3, abs=0.005)
    assert found.mean(0) == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize(("share", "ways"), [(0.0, {False}), (1.0, {True})])
def test_shares_of_0_and_1_are_one_objective_alone(share: float, ways: set[bool]) -> None:
    found = {hybrid(documents(LENGTHS), key=key, causal_share=share)["causal"] for key in range(50)}
    assert found == ways


@pytest.mark.parametrize(("ranks", "size"), [(1, None), (1, 3), (2, 2), (3, 1)])
def test_the_same_samples_are_causal_on_any_number_of_ranks(ranks: int, size: int | None) -> None:
    sequences: Any = Counted(64)
    sampler = Shuffled(sequences, num_epochs=1, num_batches=None, global_batch_size=32, seed=5)
    make = collator("hybrid", causal_share=0.25)

    def causal(ranks: int, size: int | None) -> set[int]:
        found: set[int] = set()
        for rank in range(ranks):
            share = GlobalBatches(sequences, sampler, make, 0, 1, rank, ranks, None, size, packed=False)[1]
            ids = iter(share["sample_ids"][:, 1].tolist())
            for batch in share["micro_batches"]:
                ways = batch["causal"]
                rows = ways.tolist() if isinstance(ways, torch.Tensor) else [ways] * len(batch["input_ids"])
                found |= {i for way, i in zip(rows, ids, strict=False) if way}
        return found

    assert causal(ranks, size) == causal(1, None)
    assert len(causal(1, None)) == 8
