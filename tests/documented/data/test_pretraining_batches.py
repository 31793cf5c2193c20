"""`runner.data.PretrainingDataModule`: streaming, ranks, packing and collators."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from tests.documented.conftest import TrainerMaker
from tests.documented.data.conftest import LENGTH, documents
from tests.documented.notebook import SIZES, TEXTS, Noted, texts
from tiryns.runner.data.replicas import Replica
from tiryns.runner.modules import PretrainingModule


class Endless:
    """Documents without end, that counts how many were asked for."""

    tokenized = False
    asked = 0

    def documents(self) -> Iterator[str]:
        while True:
            yield from texts(40, seed=self.asked)
            self.asked += 40

    def fingerprint(self) -> dict[str, Any]:
        return {}


def test_streaming_reads_as_it_goes(new: Any) -> None:
    data = new(streaming=True, shuffle=True, shuffle_buffer_size=100)
    data.source = Endless()
    batches = iter(data.train_dataloader())
    found = documents(next(batches) for _ in range(10))
    assert len(found) == 70
    assert data.source.asked <= 200, "the buffer and what came out of it"


def test_streaming_shuffles_in_a_buffer(new: Any, tokenised: list[tuple[int, ...]]) -> None:
    options = {"streaming": True, "shuffle": True, "shuffle_buffer_size": 10}
    loader = new(**options).train_dataloader()
    passes = [documents(loader) for _ in range(2)]
    assert all(sorted(found) == sorted(tokenised) for found in passes)
    assert passes[0] != passes[1]
    place = {ids: number for number, ids in enumerate(tokenised)}
    assert all(place[ids] <= number + 10 for number, ids in enumerate(passes[0])), (
        "none from beyond the buffer"
    )
    following = [place[b] - place[a] == 1 for a, b in pairwise(passes[0])]
    assert sum(following) < len(following) / 3, "few documents come right after one another as before"
    again = new(**options, num_workers=2).train_dataloader()
    assert [documents(again), documents(again)] == passes


def test_streaming_batches_are_those_of_a_store(new: Any) -> None:
    batches = [
        list(new(objective="mlm", streaming=streaming).train_dataloader()) for streaming in (False, True)
    ]
    for stored, streamed in zip(*batches, strict=True):
        assert all(torch.equal(stored[name], streamed[name]) for name in stored)


@pytest.mark.slow
def test_streaming_goes_over_the_data_again(
    trainer: TrainerMaker, new: Any, tokenizer_folder: str, text_lines: str
) -> None:
    noted = Noted()
    module = PretrainingModule(
        pretrained_tokenizer_name_or_path=tokenizer_folder, model_config_kwargs=SIZES, compile_model=False
    )
    data = new(streaming=True, objective="mlm", train_batch_size=16, val_dataset_name_or_path=text_lines)
    runs = trainer(max_steps=7, callbacks=[noted], limit_val_batches=1)
    runs.fit(module, data)
    assert [len(batch) for batch in noted.batches] == [16, 16, 8, 16, 16, 8, 16]
    assert runs.current_epoch >= 2


def test_streaming_resumes_in_the_middle(new: Any) -> None:
    """From any batch, with another number of loader processes, and without tokenising what came before."""
    options = {"streaming": True, "shuffle": True, "shuffle_buffer_size": 10, "objective": "mlm"}
    whole = list(new(**options).train_dataloader())
    for workers in (0, 2):
        data = new(**options, num_workers=workers)
        data.load_state_dict({"pass": 0, "batch": 3, "order": data.order()})
        for ours, theirs in zip(whole[3:], data.train_dataloader(), strict=True):
            assert torch.equal(ours["input_ids"], theirs["input_ids"])
    data = new(**options)
    order = data.order()
    for changed in ({"shuffle_buffer_size": 11}, {"train_batch_size": 3}, {"num_shards": 2}, {"seed": 1}):
        other = new(**{**options, **changed})
        with pytest.raises(ValueError, match=next(iter(changed))):
            other.load_state_dict({"pass": 0, "batch": 3, "order": order})


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("packing", [False, True])
def test_ranks_share_the_documents(
    new: Any, tokenised: list[Any], monkeypatch: pytest.MonkeyPatch, streaming: bool, packing: bool
) -> None:
    """Each document on one of three ranks, which have as many batches; of global batches none depends on their number."""
    data = new(streaming=streaming, packing=packing, train_batch_size=3, objective="mlm")
    found = []
    for rank in range(3):
        monkeypatch.setattr(data, "replica", lambda rank=rank: Replica(rank, 3, None))
        loader = data.train_dataloader()
        loader.any_has_more = None  # which asks processes that are not there
        found.append(list(loader))
    most = max(map(len, found))
    for batches in found:
        assert streaming or len(batches) == most
        batches += [loader.dataset.filler() for _ in range(most - len(batches))]
        assert batches[-1]["labels"].shape == batches[-1]["input_ids"].shape
    weights = [[int((batch["labels"] != -100).sum()) for batch in batches] for batches in found]
    alone = list(
        new(streaming=streaming, packing=packing, train_batch_size=9, objective="mlm").train_dataloader()
    )
    assert sum(map(sum, weights)) == sum(int((batch["labels"] != -100).sum()) for batch in alone)
    if not packing:
        assert [sum(step) for step in zip(*weights, strict=True)] == [
            int((batch["labels"] != -100).sum()) for batch in alone
        ]


def test_ranks_that_run_out_go_on_with_fillers(new: Any) -> None:
    data = new(streaming=True, objective="diffusion", packing=True)
    loader = data.train_dataloader()
    still = iter([True] * 9 + [False])
    loader.any_has_more = lambda mine: mine or next(still)
    batches = list(loader)
    fillers = [batch for batch in batches if batch["input_ids"].numel() == 1]
    assert len(fillers) == 9
    assert all(float(batch["weight"]) == 0 and (batch["labels"] == -100).all() for batch in fillers)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_packing(new: Any, tokenised: list[tuple[int, ...]], streaming: bool, num_workers: int) -> None:
    budget = LENGTH * 4
    data = new(packing=True, train_batch_size=4, streaming=streaming, num_workers=num_workers)
    batches = list(data.train_dataloader())
    assert all(
        batch["input_ids"].shape[0] == 1 and batch["input_ids"].shape[1] <= budget for batch in batches
    )
    assert sorted(documents(batches)) == sorted(tokenised)
    tokens = sum(map(len, tokenised))
    assert len(batches) <= -(-tokens // budget) + 1, "well filled"
    for batch in batches:
        ends = batch["cu_seqlens"].tolist()
        places = torch.cat([torch.arange(b - a) for a, b in pairwise(ends)])
        assert torch.equal(batch["position_ids"][0], places)
        assert batch["labels"].shape == batch["input_ids"].shape


@pytest.mark.parametrize("objective", ["mlm", "enhanced_mlm", "diffusion"])
def test_packing_pad_to_budget(
    trainer: TrainerMaker, new: Any, tokenizer_folder: str, tokenised: list[tuple[int, ...]], objective: str
) -> None:
    options = {"packing": True, "train_batch_size": 4, "objective": objective}
    data = new(packing_pad_to_budget=True, **options)
    batches = list(data.train_dataloader())
    assert {batch["input_ids"].shape for batch in batches} == {(1, LENGTH * 4)}
    assert all(batch["labels"][batch["input_ids"] == 0].eq(-100).all() for batch in batches)
    if objective == "enhanced_mlm":
        assert sorted(documents(batches)) == sorted(tokenised)
    torch.manual_seed(0)
    module = PretrainingModule(
        pretrained_tokenizer_name_or_path=tokenizer_folder, model_config_kwargs=SIZES, compile_model=False,
        objective=objective,  # type: ignore[arg-type]
    )  # fmt: skip
    runs = trainer(max_steps=2)
    runs.fit(module, data)
    assert runs.global_step == 2
    filled = [float(module.training_step(batch, 0).detach()) for batch in batches]
    unfilled = [float(module.training_step(batch, 0).detach()) for batch in new(**options).train_dataloader()]
    if objective != "diffusion":  # whose times depend on how many rows there are
        assert filled == pytest.approx(unfilled, rel=1e-4), "padding changes no loss"


def test_padded_rows_take_masks_that_depend_on_the_epoch(new: Any) -> None:
    options = {"objective": "mlm", "packing": True, "collator_kwargs": {"favour": "unseen"}}
    filled, unfilled = (
        [batch["labels"] for batch in new(packing_pad_to_budget=padded, **options).train_dataloader()]
        for padded in (True, False)
    )
    assert any(a.shape != b.shape for a, b in zip(filled, unfilled, strict=True))
    assert all(torch.equal(a[:, : b.shape[1]], b) for a, b in zip(filled, unfilled, strict=True))


def test_packing_keeps_documents_apart(new: Any, tokenizer_folder: str) -> None:
    """The loss of packed rows is that of the same documents each in a row of its own."""
    torch.manual_seed(0)
    module = PretrainingModule(
        pretrained_tokenizer_name_or_path=tokenizer_folder, model_config_kwargs=SIZES, compile_model=False
    ).eval()
    sums = {}
    for packing in (False, True):
        data = new(objective="mlm", packing=packing, train_batch_size=4)
        batches = [module.micro_batch(batch) for batch in data.train_dataloader()]
        if packing:
            module.model.pack_rows()
        sums[packing] = sum(float(module.model(batch)["loss"].detach()) for batch in batches)
    assert sums[True] == pytest.approx(sums[False], rel=1e-4)


def test_collator_kwargs(new: Any, tokenizer_folder: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    batch = next(iter(new(objective="mlm", collator_kwargs={"mlm_probability": 1.0}).train_dataloader()))
    with pytest.raises(ValueError, match="final_mlm_probability is for the data"):
        new(objective="mlm", collator_kwargs={"final_mlm_probability": 0.1}).train_dataloader()
    targets = batch["labels"] != -100
    special = torch.tensor(tokenizer.all_special_ids)
    assert torch.equal(
        targets, (batch["attention_mask"] > 0) & ~torch.isin(batch["labels"], special) & targets
    )
    ordinary = [
        len(ids) - 2
        for ids in (tokenizer(t, truncation=True, max_length=LENGTH)["input_ids"] for t in TEXTS[:7])
    ]
    assert targets.sum(1).tolist() == ordinary, "all but the special tokens"
