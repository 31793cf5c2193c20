"""Numbers of targets, and which tokens become targets more often."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.conftest import TINY
from tests.objectives.samples import VOCABULARY, collator, documents, flat
from tests.objectives.test_masking import LINES, masker, targets, tokenised
from tests.support.composed import composed
from tiryns.runner.loop.assembly import assemble
from tiryns.runner.objectives.rows import IGNORED

LENGTHS = [3, 4, 7, 12, 23, 40, 41, 64] * 20


def by_sample(values: np.ndarray, lengths: list[int]) -> list[np.ndarray]:
    return np.split(values, np.cumsum(lengths)[:-1])


def times_in(make: Any, texts: list[np.ndarray], epochs: range) -> NDArray[np.int64]:
    """How often each token is a target."""
    return np.sum([targets(make, flat(texts, epoch=epoch)) for epoch in epochs], axis=0, dtype=np.int64)


@pytest.mark.parametrize("favour", [None, "unseen", "rare"])
def test_fixed_count_is_the_rounded_share_of_each_sample(favour: str | None) -> None:
    texts = flat(documents(LENGTHS))
    counts = np.arange(VOCABULARY)
    make = collator("mlm", mlm_probability=0.25, fixed_count=True, favour=favour, token_counts=counts)
    found = [int(sample.sum()) for sample in by_sample(targets(make, texts), LENGTHS)]
    assert found == [round(0.25 * (length - 2)) for length in LENGTHS]
    drawn = by_sample(targets(collator("mlm", mlm_probability=0.25), texts), LENGTHS)
    assert [int(sample.sum()) for sample in drawn] != found


@pytest.mark.parametrize("unit", ["words", "spans"])
def test_fixed_count_of_units_misses_by_less_than_one_unit(unit: str) -> None:
    texts = tokenised("bpe", LINES * 100)
    make = masker("bpe", masking=unit, fixed_count=True, mlm_probability=0.3)
    found = by_sample(targets(make, flat(texts)), [len(text) for text in texts])
    over = np.array([sample.sum() - round(0.3 * len(sample)) for sample in found])
    longest = 3 if unit == "spans" else 9
    assert np.abs(over).max() < longest
    assert over.min() < 0 < over.max()
    assert over.mean() == pytest.approx(0, abs=0.2), "right in expectation"


@pytest.mark.parametrize("fixed_count", [False, True])
@pytest.mark.parametrize("unit", ["tokens", "words", "spans"])
@pytest.mark.parametrize("rate", [0.25, 0.3])
def test_unseen_tokens_come_first(rate: float, unit: str, fixed_count: bool) -> None:
    """In floor(1 / rate) epochs no token is a target twice; at a rate of 1/4 each is one exactly once in four."""
    texts, cycle = tokenised("bpe", LINES * 10), int(1 / rate)
    settings: dict[str, Any] = {"masking": unit, "mlm_probability": rate, "fixed_count": fixed_count}
    make = masker("bpe", favour="unseen", **settings)
    times = [times_in(make, texts, range(first, first + cycle)) for first in (0, cycle, 7 * cycle)]
    assert max(found.max() for found in times) == 1
    assert min(found.mean() for found in times) == pytest.approx(rate * cycle, abs=0.04)
    independent = masker("bpe", **settings)
    drawn = times_in(independent, texts, range(cycle))
    assert (drawn > 1).mean() > 0.15


def test_masks_of_later_cycles_are_new() -> None:
    texts = documents([200] * 20)
    make = collator("mlm", favour="unseen", mlm_probability=0.25)
    epochs = [targets(make, flat(texts, epoch=epoch)) for epoch in (0, 4, 8)]
    for one in range(3):
        for other in range(one):
            both = (epochs[one] & epochs[other]).sum() / epochs[one].sum()
            assert both == pytest.approx(0.25, abs=0.05), "independent of each other"


def test_rare_tokens_are_drawn_as_by_multinomial() -> None:
    """DistilBERT's weights, drawn without replacement as `torch.multinomial` does."""
    counts = np.ones(VOCABULARY, dtype=np.int64)
    common, usual, rare = np.arange(5, 15), np.arange(50, 60), np.arange(100, 110)
    counts[common], counts[usual], counts[rare] = 10_000, 100, 0
    text = np.concatenate([common, usual, rare])
    make = collator("mlm", mlm_probability=0.2, favour="rare", token_counts=counts)
    ours = targets(make, flat([text] * 4000)).reshape(-1, 3, 10).mean((0, 2))
    weights = torch.from_numpy(np.maximum(counts, 1)[text] ** -0.7)
    torch.manual_seed(0)
    drawn = torch.multinomial(weights.expand(4000, -1), 6)
    theirs = np.bincount(drawn.flatten().numpy() // 10, minlength=3) / 40_000
    assert ours == pytest.approx(theirs, abs=0.006)
    assert ours[2] > 5 * ours[1] > 25 * ours[0] > 0
    plain = targets(collator("mlm", mlm_probability=0.2), flat([text] * 4000)).reshape(-1, 3, 10).mean((0, 2))
    assert plain == pytest.approx(0.2, abs=0.01)


def test_counts_of_few_tokens_or_a_function_of_them_do_as_well() -> None:
    texts, counts = flat(documents([60] * 20)), np.arange(50)
    made = [collator("mlm", favour="rare", token_counts=given) for given in (counts, lambda: counts)]
    assert (targets(made[0], texts) == targets(made[1], texts)).all()
    other = collator("mlm", favour="rare", token_counts=counts[::-1])
    assert not (targets(other, texts) == targets(made[0], texts)).all()


@pytest.mark.parametrize(
    ("favour", "message"),
    [("unseen", "favour=unseen needs the epoch of each sample"), ("rare", "favour=rare needs token_counts")],
)
def test_what_a_choice_needs_is_said(favour: str, message: str) -> None:
    rows = [{"input_ids": [2, 11, 12, 3]}]
    with pytest.raises(ValueError, match=rf"objective\.{message}"):
        collator("mlm", favour=favour)(rows)


RUNS = [
    ["objective.masking=words"],
    ["objective.masking=spans", "objective.favour=unseen", "objective.mask_share=1"],
    ["objective.masking=words", "objective.favour=rare"],
    ["objective.fixed_count=true", "objective.final_mlm_probability=0.1"],
]


def data_of(text_file: Path, *overrides: str) -> Any:
    """The data module of a run, connected."""
    words = [*TINY, f"data.source={text_file}", "data.vocab_size=70", "trainer.max_steps=60", *overrides]
    return assemble(composed(words)).data


def hashes(data: Any, step: int, ranks: int) -> list[int]:
    shares = [data.train_batches(rank, ranks)[step] for rank in range(ranks)]
    return [sum(share[name] for share in shares) for name in ("hash_low", "hash_high", "weight")]


@pytest.mark.rows(1)
@pytest.mark.parametrize("overrides", RUNS, ids=" ".join)
def test_global_batches_of_a_run_do_not_show_ranks_micro_batches_or_layout(
    text_file: Path, overrides: list[str]
) -> None:
    whole = data_of(text_file, *overrides)
    cut = data_of(text_file, *overrides, "data.micro_batch_tokens=90", "data.layout=padded")
    assert whole.partitioning != cut.partitioning
    plain = data_of(text_file)
    for step in (0, 50):
        assert hashes(cut, step, 3) == hashes(whole, step, 1)
        assert hashes(plain, step, 1) != hashes(whole, step, 1)
    assert hashes(whole, 0, 1) != hashes(whole, 50, 1)


def validation(data: Any) -> Iterator[Any]:
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    data.trainer = SimpleNamespace(global_rank=0, world_size=1, strategy=strategy)
    for loader in data.val_dataloader():
        for share in loader:
            yield from share["micro_batches"]


def test_validation_batches_of_a_run_are_the_same_whatever_it_trains_on(text_file: Path) -> None:
    plain = list(validation(data_of(text_file)))
    for overrides in [*RUNS, ["objective.mlm_probability=0.6"]]:
        for one, other in zip(plain, validation(data_of(text_file, *overrides)), strict=True):
            assert one.keys() == other.keys()
            assert all(torch.equal(torch.as_tensor(one[n]), torch.as_tensor(other[n])) for n in one)
    moved = list(validation(data_of(text_file, "objective.validation_mlm_probability=0.3")))
    assert not torch.equal(moved[0]["labels"], plain[0]["labels"])


def test_epochs_of_a_run_are_known_to_the_masks(text_file: Path) -> None:
    """A sample has other targets in each of the first three epochs of a run at a rate of 0.3."""
    data = data_of(text_file, "objective.favour=unseen", "data.layout=padded", "sampler.global_batch_size=30")
    targets_of: dict[tuple[int, ...], list[torch.Tensor]] = {}
    for step in range(60):
        for micro in data.train_batches(0, 1)[step]["micro_batches"]:
            labels, mask = micro["labels"], micro["attention_mask"]
            ids = torch.where(labels == IGNORED, micro["input_ids"], labels)
            for text, real, row in zip(ids, mask.bool(), labels != IGNORED, strict=True):
                targets_of.setdefault(tuple(text[real].tolist()), []).append(row[real])
    assert max(map(len, targets_of.values())) >= 3
    assert all(torch.stack(found[:3]).sum(0).max() <= 1 for found in targets_of.values())


def test_stream_has_no_counts(text_file: Path, tmp_path: Path) -> None:
    data = data_of(text_file)
    data.tokenizer.save_pretrained(tmp_path)
    stream = ["data.streaming=true", f"data.tokenizer={tmp_path}", "data.validation_documents=10"]
    with pytest.raises(
        ValueError, match=r"objective\.favour=rare counts the tokens .* set data\.streaming=false"
    ):
        data_of(text_file, *stream, "objective.favour=rare")
    assert data_of(text_file, *stream, "objective.favour=unseen").stream_source
