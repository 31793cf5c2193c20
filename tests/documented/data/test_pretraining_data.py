"""`runner.data.PretrainingDataModule` in plain Python."""

import inspect
import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import datasets
import lightning
import pytest
import torch
from torch.utils.data import DataLoader
from transformers import AutoTokenizer

from iolaus.runner.data import PretrainingDataModule
from iolaus.runner.data.batches import MASK_STREAM
from iolaus.runner.modules import PretrainingModule
from iolaus.runner.objectives import MaskedLanguageModelingCollator
from iolaus.runner.order.keyed import sample_keys
from iolaus.runner.samplers import Shuffled
from tests.documented.conftest import TrainerMaker
from tests.documented.notebook import SIZES, TEXTS, Noted, texts

DEFAULTS: dict[str, Any] = {
    "train_dataset_name_or_path": inspect.Parameter.empty,
    "pretrained_tokenizer_name_or_path": inspect.Parameter.empty,
    "objective": "mlm", "max_sequence_length": 512, "val_dataset_name_or_path": None, "train_split": None,
    "val_split": None, "file_format": None, "text_column": "text", "streaming": False, "shuffle": False,
    "num_shards": None, "train_batch_size": 32, "val_batch_size": 32, "num_workers": 0, "collator_kwargs": None,
    "packing": False, "packing_pad_to_budget": False, "cache_dir": None, "data_kwargs": None,
}  # fmt: skip
LENGTH = 16
"""Tokens at which documents are cut; about half of them are longer."""


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("tokens"))


@pytest.fixture
def new(text_lines: str, tokenizer_folder: str, cache_dir: str) -> Any:
    """`new(train_batch_size=3)`: the data module of the texts, set up; their order is seen where nothing is masked."""

    def make(source: Any = text_lines, stage: str | None = "fit", **options: Any) -> PretrainingDataModule:
        made: dict[str, Any] = {
            "objective": "enhanced_mlm", "max_sequence_length": LENGTH, "train_batch_size": 7, "cache_dir": cache_dir,
            **options,
        }  # fmt: skip
        data = PretrainingDataModule(source, tokenizer_folder, **made)
        data.prepare_data()
        data.setup(stage)
        return data

    return make


@pytest.fixture(scope="module")
def tokenised(tokenizer_folder: str) -> list[tuple[int, ...]]:
    """The documents as they must come out."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    return [tuple(tokenizer(text, truncation=True, max_length=LENGTH)["input_ids"]) for text in TEXTS]


def documents(batches: Any) -> list[tuple[int, ...]]:
    """The token ids of all rows without padding, document by document."""
    found = []
    for batch in batches:
        if "cu_seqlens" in batch:
            row, ends = batch["input_ids"][0], batch["cu_seqlens"].tolist()
            parts = [row[a:b] for a, b in pairwise(ends)]
            found += [tuple(part.tolist()) for part in parts if part[0] != 0]
        else:
            for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
                found.append(tuple(ids[mask > 0].tolist()))
    return found


def test_signature() -> None:
    documented = inspect.signature(PretrainingDataModule).parameters
    assert {n: p.default for n, p in list(documented.items())[: len(DEFAULTS)]} == DEFAULTS
    assert list(documented)[: len(DEFAULTS)] == list(DEFAULTS)
    assert all(p.default is not p.empty for n, p in documented.items() if n not in DEFAULTS)
    assert issubclass(PretrainingDataModule, lightning.LightningDataModule)


def test_prepare_data_and_setup(
    new: Any, text_lines: str, tokenizer_folder: str, tmp_path: Path, tokenised: list[tuple[int, ...]]
) -> None:
    path = tmp_path / "texts.jsonl"
    shutil.copy(text_lines, path)
    cache = tmp_path / "cache"
    options = {"cache_dir": str(cache), "val_dataset_name_or_path": str(path)}
    data = PretrainingDataModule(str(path), tokenizer_folder, max_sequence_length=LENGTH, **options)
    data.prepare_data()
    [store] = cache.glob("text/*/train/tokens.bin")
    written = store.stat().st_mtime_ns
    for stage in ("fit", "validate", "test", "predict", None):
        other = new(path, stage=stage, **options)
        assert len(documents(other.val_dataloader()[0])) == len(TEXTS)
    assert store.stat().st_mtime_ns == written, "the second preparation finds the first"
    assert documents(new(path, **options).train_dataloader()) == tokenised
    assert max(map(len, documents(new(path, max_sequence_length=9, **options).train_dataloader()))) == 9
    path.write_text(json.dumps({"text": "again"}) + "\n")
    assert len(documents(new(path, **options).train_dataloader())) == 1, "changed data is tokenised anew"


def test_train_dataloader(new: Any, tokenised: list[tuple[int, ...]]) -> None:
    loader = new().train_dataloader()
    assert isinstance(loader, DataLoader)
    batches = list(loader)
    assert len(batches) == len(loader) == 6
    assert [len(batch["input_ids"]) for batch in batches] == [7, 7, 7, 7, 7, 5]
    assert documents(batches) == documents(loader) == tokenised
    batch = next(iter(new(objective="mlm").train_dataloader()))
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    assert {value.dtype for value in batch.values()} == {torch.int64}


def test_masks_and_order_are_those_of_a_run(new: Any, tokenizer_folder: str, tokenised: list[Any]) -> None:
    """By the sampler and the keys of a run, and the collator called as a `collate_fn`."""
    data = new(objective="mlm", shuffle=True, seed=5)
    loader = data.train_dataloader()
    order = Shuffled(dataset=data.train, num_epochs=2, num_batches=None, global_batch_size=len(TEXTS), seed=5)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    collator = MaskedLanguageModelingCollator(
        tokenizer.pad_token_id,
        tokenizer.mask_token_id,
        len(tokenizer),
        special_token_ids=tokenizer.all_special_ids,
    )
    for epoch in range(2):
        epochs, indices = order.global_batch(epoch).T
        keys = sample_keys(5, epochs, indices, MASK_STREAM)
        samples = [{"input_ids": tokenised[i], "key": k} for i, k in zip(indices, keys, strict=True)]
        for number, batch in enumerate(loader):
            expected = collator(samples[7 * number : 7 * number + 7])
            assert all(torch.equal(batch[name], expected[name]) for name in expected)


def test_val_dataloader(new: Any, text_lines: str, tokenised: list[tuple[int, ...]]) -> None:
    assert new().val_dataloader() == []
    loaders = new(
        objective="mlm", val_dataset_name_or_path=[text_lines, text_lines], val_batch_size=15
    ).val_dataloader()
    assert len(loaders) == 2
    for loader in loaders:
        first, second = list(loader), list(loader)
        assert [len(batch["input_ids"]) for batch in first] == [15, 15, 10]
        for ours, theirs in zip(first, second, strict=True):
            assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    data = new(validation_documents=10)
    assert len(documents(data.train_dataloader())) == 30
    assert len(documents(data.val_dataloader()[0])) == 10


def write(folder: Path) -> dict[str, str]:
    """The texts as each kind of source."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"text": text} for text in TEXTS]
    (folder / "lines.txt").write_text("\n".join(TEXTS))
    (folder / "part").mkdir()
    for number in range(2):
        (folder / "part" / f"{number}.jsonl").write_text(
            "\n".join(json.dumps(row) for row in rows[number * 20 :][:20])
        )
    table = datasets.Dataset.from_list(rows)
    table.to_csv(str(folder / "table.csv"))
    table.to_parquet(str(folder / "table.parquet"))
    table.save_to_disk(str(folder / "saved"))
    datasets.DatasetDict(
        {"train": table, "validation": table.select(range(4)), "extra": table.select(range(9))}
    ).save_to_disk(str(folder / "splits"))
    return {path.name: str(path) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write(tmp_path_factory.mktemp("sources") / "all")


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", ["lines.txt", "part", "table.csv", "table.parquet", "saved", "splits"])
def test_train_dataset_name_or_path(
    new: Any, sources: dict[str, str], tokenised: list[tuple[int, ...]], name: str, streaming: bool
) -> None:
    assert documents(new(sources[name], streaming=streaming).train_dataloader()) == tokenised


def test_train_dataset_name_or_path_may_be_several(
    new: Any, sources: dict[str, str], tokenised: list[Any]
) -> None:
    data = new([sources["part"] + "/1.jsonl", sources["part"] + "/0.jsonl"])
    assert documents(data.train_dataloader()) == tokenised[20:] + tokenised[:20]
    with pytest.raises((FileNotFoundError, ValueError), match=r"nowhere\.txt"):
        new("nowhere.txt")
    with pytest.raises(ValueError, match="empty list"):
        new([])


def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """A hub with the texts in it, and a list of the calls of `load_dataset`."""
    calls: list[tuple[Any, ...]] = []

    def load_dataset(
        path: str, name: str | None = None, *, split: str, streaming: bool, **options: Any
    ) -> Any:
        calls.append((path, name, split, streaming, options))
        table = datasets.Dataset.from_list([{"text": text} for text in TEXTS])
        return table.to_iterable_dataset() if streaming else table

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return calls


@pytest.mark.parametrize("streaming", [False, True])
def test_data_kwargs(
    new: Any, monkeypatch: pytest.MonkeyPatch, tokenised: list[Any], streaming: bool
) -> None:
    calls = hub(monkeypatch)
    data = new("owner/texts", data_kwargs={"name": "english", "revision": "v2"}, streaming=streaming)
    assert documents(data.train_dataloader()) == tokenised
    assert calls == [("owner/texts", "english", "train", streaming, {"revision": "v2"})]


def test_hub_names_that_are_not_there(new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(*arguments: Any, **options: Any) -> Any:
        raise ConnectionError("offline")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises((FileNotFoundError, ValueError), match="owner/nothing"):
        new("owner/nothing")


def test_file_format_and_text_column(new: Any, text_lines: str, tmp_path: Path, tokenised: list[Any]) -> None:
    shutil.copy(text_lines, tmp_path / "texts.data")
    assert documents(new(tmp_path / "texts.data", file_format="json").train_dataloader()) == tokenised
    (tmp_path / "list.data").write_text(json.dumps([{"content": text} for text in TEXTS]))
    data = new(tmp_path / "list.data", file_format="json", text_column="content")
    assert documents(data.train_dataloader()) == tokenised
    with pytest.raises(ValueError, match=r"'content'.*text"):
        new(text_lines, text_column="content")
    with pytest.raises(ValueError, match="jsonl"):
        new(tmp_path / "texts.data", file_format="jsonx")


def test_train_split_and_val_split(
    new: Any, sources: dict[str, str], text_lines: str, tmp_path: Path
) -> None:
    splits = sources["splits"]
    data = new(splits, val_dataset_name_or_path=splits)
    assert [len(documents(loader)) for loader in [data.train_dataloader(), *data.val_dataloader()]] == [40, 4]
    data = new(splits, train_split="extra", val_dataset_name_or_path=splits, val_split=["train", "extra"])
    assert [len(documents(loader)) for loader in [data.train_dataloader(), *data.val_dataloader()]] == [
        9,
        40,
        9,
    ]
    assert data.validation_names == ["train_1", "extra"]
    data = new(splits, val_dataset_name_or_path=[splits, text_lines], val_split=["extra", "train"])
    assert [len(documents(loader)) for loader in data.val_dataloader()] == [9, 40]
    data = new(splits, val_dataset_name_or_path=[splits, splits], val_split="extra")
    assert [len(documents(loader)) for loader in data.val_dataloader()] == [9, 9]
    for wrong in ({"train_split": "dev"}, {"val_dataset_name_or_path": splits, "val_split": "dev"}):
        with pytest.raises(ValueError, match=r"'dev'.*train, validation, extra"):
            new(splits, **wrong)
    for name, count in (("train", 5), ("validation", 3)):
        (tmp_path / f"{name}.txt").write_text("\n".join(TEXTS[:count]))
    data = new(tmp_path, val_dataset_name_or_path=str(tmp_path))
    assert [len(documents(loader)) for loader in [data.train_dataloader(), *data.val_dataloader()]] == [5, 3]
    with pytest.raises(ValueError, match=r"'dev2'.*train, validation"):
        new(tmp_path, train_split="dev2")


@pytest.mark.parametrize("masked", [False, True])
def test_input_ids_given(new: Any, tmp_path: Path, tokenised: list[Any], masked: bool) -> None:
    rows: list[dict[str, Any]] = [{"input_ids": list(ids)} for ids in tokenised]
    if masked:
        for row in rows:
            missing = LENGTH - len(row["input_ids"])
            row["attention_mask"] = [1] * len(row["input_ids"]) + [0] * missing
            row["input_ids"] += [0] * missing
    (tmp_path / "ids.jsonl").write_text("\n".join(map(json.dumps, rows)))
    datasets.Dataset.from_list(rows).save_to_disk(str(tmp_path / "saved"))
    for source in ("ids.jsonl", "saved"):
        assert documents(new(tmp_path / source).train_dataloader()) == tokenised


def test_shuffle(new: Any, tokenised: list[tuple[int, ...]]) -> None:
    loader = new(shuffle=True).train_dataloader()
    passes = [documents(loader) for _ in range(3)]
    assert all(sorted(found) == sorted(tokenised) for found in passes)
    assert len({tuple(found) for found in [*passes, tokenised]}) == 4
    again = new(shuffle=True, num_workers=2).train_dataloader()
    assert [documents(again), documents(again)] == passes[:2]
    assert documents(new(shuffle=True, seed=1).train_dataloader()) != passes[0]


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_shards": 3, "num_workers": 2}])
def test_streaming(new: Any, tmp_path: Path, tokenised: list[Any], options: dict[str, Any]) -> None:
    """Every document once, nothing on disk."""
    cache = tmp_path / "cache"
    data = new(streaming=True, cache_dir=str(cache), **options)
    loader = data.train_dataloader()
    for _ in range(2):
        found = documents(loader)
        assert sorted(found) == sorted(tokenised)
        assert ("num_shards" in options) != (found == tokenised)
    assert not cache.exists()


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
        monkeypatch.setattr(data, "ranks", lambda rank=rank: (rank, 3))
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
@pytest.mark.parametrize("num_workers", [0, 2])
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
