"""A loss over the whole global batch has the gradient of one large batch, however it is cut."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.models.tiny import tiny
from tests.objectives.samples import collator, documents
from tests.support.precision import BF16_ERROR
from tiryns.runner.data.batches import GlobalBatches
from tiryns.runner.data.micro_batch import Share
from tiryns.runner.data.pairs.reader import PairSequences
from tiryns.runner.data.replicas import Replica
from tiryns.runner.models.embedding.contrastive import PairsModel
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.modules.two_passes import SecondPass, in_two_passes
from tiryns.runner.optim import LoopNeeds
from tiryns.runner.samplers import Shuffled

ROWS, BATCH = 12, 8
SEEDS = (5, 3)
CUTS = {
    "one": (1, None, None), "by rows": (1, None, 3), "by tokens": (1, 60, None), "two ranks": (2, None, 2),
    "three ranks, with fillers": (3, 30, None), "four ranks": (4, None, 1),
}  # fmt: skip
"""Ranks, tokens and rows of a micro-batch."""


def sequences(negatives: bool = True, equal: bool = True) -> PairSequences:
    """Rows with none to two hard negatives; some have the same passage."""
    counts = np.array([2 + i % 3 * negatives for i in range(ROWS)])
    texts = documents([int(3 + (7 * i) % 11) for i in range(int(counts.sum()))])
    starts = np.cumsum(counts) - counts
    if equal:
        texts[starts[4] + 1] = texts[starts[1] + 1]
    rows = [texts[start : start + count] for start, count in zip(starts, counts, strict=True)]
    made = PairSequences([None] * ROWS, [np.concatenate(row) for row in rows])
    made.text_lengths = np.array([len(text) for text in texts], np.int32)
    made.text_counts, made.match_ids = counts, np.array([7 * (i % 5 == 0) for i in range(ROWS)])
    made.text_ids = 1 + np.unique([str(text) for text in texts], return_inverse=True)[1]
    made.scores = np.linspace(0, 1, ROWS).round(1)
    return made


def shares(
    cut: str = "one",
    packed: bool = False,
    samples: PairSequences | None = None,
    objective: str = "contrastive",
    **fields: Any,
) -> list[Share]:
    """The shares of all ranks of one global batch."""
    ranks, tokens, size = CUTS[cut]
    samples = sequences() if samples is None else samples
    sampler = Shuffled(samples, num_epochs=None, num_batches=4, global_batch_size=BATCH, seed=1)
    make = collator(objective, texts_per_row=4, **fields)
    return [
        GlobalBatches(samples, sampler, make, 1, 1, rank, ranks, tokens, size, packed)[1]
        for rank in range(ranks)
    ]


def model(
    architecture: str = "bert",
    dropout: float = 0.0,
    packed: bool = False,
    objective: str = "contrastive",
    **fields: Any,
) -> PairsModel:
    """In fp64, as rounding is not what is tested."""
    made = collator(objective, **{"texts_per_row": 4, "label_column": "score", **fields}).task_model(
        tiny(architecture)
    )
    assert isinstance(made, PairsModel)
    if packed:
        made.pack_rows()
    for module in made.modules():
        if hasattr(module, "p") and "ropout" in type(module).__name__:
            module.p = dropout  # type: ignore[assignment]
    return made.double().train()


Found = tuple[Tensor, dict[str, Tensor]]


def stepped(trained: PairsModel, given: list[Share], monkeypatch: pytest.MonkeyPatch) -> Found:
    """Loss and gradient of a global batch as the step adds them up on each rank, and DDP averages them."""
    trained.zero_grad()
    size, weight = len(given), sum(share["weight"] for share in given)
    recorded: list[list[Tensor]] = []

    def record(part: Tensor, group: Any) -> None:
        recorded[-1].append(part.clone())

    monkeypatch.setattr(torch.distributed, "all_reduce", record)
    for rank, share in enumerate(given if size > 1 else []):
        recorded.append([])
        SecondPass(trained, share["micro_batches"], SEEDS, Replica(rank, size, None))

    total = torch.zeros((), dtype=torch.float64)
    for rank, share in enumerate(given):
        sums = iter([torch.stack(parts).sum(0) for parts in zip(*recorded, strict=True)])
        monkeypatch.setattr(
            torch.distributed, "all_reduce", lambda part, group, sums=sums: part.copy_(next(sums))
        )
        compute = in_two_passes(
            trained, share["micro_batches"], LoopNeeds(None), SEEDS, Replica(rank, size, None)
        )
        for micro_batch in share["micro_batches"]:
            with dropout_keys(micro_batch, SEEDS[1]) as keys:
                loss = compute(micro_batch)["loss"]
                if keys is not None:
                    keys.computing_again = True
                (loss * size / weight).backward()
            total += loss.detach()
    grads = {name: p.grad / size for name, p in trained.named_parameters() if p.grad is not None}
    return total / weight, grads


def assert_same(found: Found, expected: Found, rtol: float = 1e-7) -> None:
    """But for the fp32 that ModernBERT has in rotary positions."""
    torch.testing.assert_close(found[0], expected[0], rtol=rtol, atol=0)
    assert found[1].keys() == expected[1].keys()
    scale = max(float(g.abs().max()) for g in expected[1].values())
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=0, atol=rtol * scale, msg=name)


def by_hand(trained: PairsModel, share: Share) -> Found:
    """Plain autograd through the whole similarity matrix, each text alone in a row; in-batch negatives by their ids."""
    trained.zero_grad()
    (batch,) = share["micro_batches"]
    ids, mask = batch["input_ids"], batch["attention_mask"]
    hidden = [
        trained.pretrained.base_model(input_ids=row[m == 1][None])[0][0]
        for row, m in zip(ids, mask, strict=True)
    ]
    vectors = functional.normalize(torch.stack([states.mean(0) for states in hidden]), dim=-1)
    of_row = list(
        zip(
            batch["text_rows"].tolist(),
            batch["text_columns"].tolist(),
            batch["text_ids"].tolist(),
            strict=True,
        )
    )
    queries = {row: n for n, (row, column, _) in enumerate(of_row) if column == 0}
    passages = {row: n for n, (row, column, _) in enumerate(of_row) if column == 1}
    matches = batch["match_ids"].tolist()
    losses = []
    for row, n in queries.items():
        own = passages[row]
        others = [
            place
            for place, (other, column, number) in enumerate(of_row)
            if column > 0
            and number not in (of_row[own][2], of_row[n][2])
            and not (column == 1 and (other == row or of_row[queries[other]][2] == of_row[n][2]))
            and not (column == 1 and matches[other] == matches[row] != 0)
        ]
        logits = vectors[[own, *others]] @ vectors[n] / trained.temperature
        losses.append(logits.logsumexp(0) - logits[0])
    loss = torch.stack(losses).mean()
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in trained.named_parameters() if p.grad is not None}


@pytest.mark.rows(2)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_gradient_is_that_of_plain_autograd_over_all_similarities(
    architecture: str, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = model(architecture)
    expected = by_hand(trained, shares()[0])
    assert_same(stepped(trained, shares(cut), monkeypatch), expected)


@pytest.mark.rows(1)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("cut", [cut for cut in CUTS if cut != "one"])
def test_dropout_is_that_of_one_large_batch(cut: str, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = model("modernbert", dropout=0.3, packed=packed)
    expected = stepped(trained, shares("one", packed), monkeypatch)
    assert_same(stepped(trained, shares(cut, packed), monkeypatch), expected)
    without = stepped(model("modernbert"), shares("one"), monkeypatch)
    assert abs(without[0] - expected[0]) > 1e-3


SETTINGS: dict[str, dict[str, Any]] = {
    "symmetric": {"symmetric": True}, "learnt": {"learn_temperature": True, "temperature": 0.2},
    "margin": {"false_negative_margin": 0.05},
    "dimensions": {"dimensions": [32, 8], "dimension_weights": [1.0, 0.5]}, "cls": {"pooling": "cls"},
    "max": {"pooling": "max"}, "cosent": {"loss": "cosent", "label_column": "score"},
    "cosine": {"loss": "cosine", "label_column": "score"},
}  # fmt: skip


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", SETTINGS)
def test_cut_changes_no_gradient_and_every_setting_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SETTINGS[name]
    trained, plain = model(**settings), model()
    expected = stepped(trained, shares("one", **settings), monkeypatch)
    for cut in ("by rows", "two ranks"):
        assert_same(stepped(trained, shares(cut, **settings), monkeypatch), expected)
    assert abs(expected[0] - stepped(plain, shares("one"), monkeypatch)[0]) > 1e-4
    assert ("log_temperature" in expected[1]) == (name == "learnt")


def test_bf16_finds_weights_with_a_graph_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Autocast keeps the weights that the first pass casts, and the second would have no gradient for them."""
    trained = model().float()
    with torch.autocast("cpu", torch.bfloat16):
        cut = stepped(trained, shares("by rows"), monkeypatch)
    whole = stepped(trained, shares("one"), monkeypatch)
    assert cut[1].keys() == whole[1].keys()
    every = [torch.cat([g.flatten() for _, g in sorted(of.items())]) for of in (cut[1], whole[1])]
    assert float((every[0] - every[1]).norm()) < 2 * BF16_ERROR * float(every[1].norm())


def test_optimizer_with_second_derivatives_is_refused_in_two_passes() -> None:
    needs = LoopNeeds(None)
    needs.create_graph = True
    trained, alone = model(), Replica(0, 1, None)
    whole, cut = (shares(cut)[0]["micro_batches"] for cut in ("one", "by rows"))
    assert in_two_passes(trained, whole, needs, SEEDS, alone) is trained
    with pytest.raises(ValueError, match="second derivatives"):
        in_two_passes(trained, cut, needs, SEEDS, alone)
