"""`runner.data.PretrainingDataModule` in plain Python."""

import inspect
import json
import shutil
from pathlib import Path
from typing import Any

import datasets
import lightning
import pytest
import torch
from torch.utils.data import DataLoader
from transformers import AutoTokenizer

from tests.documented.data.conftest import LENGTH, documents
from tests.documented.notebook import TEXTS
from tiryns.runner.data import PretrainingDataModule
from tiryns.runner.data.batches import MASK_STREAM
from tiryns.runner.objectives import MaskedLanguageModelingCollator
from tiryns.runner.order.keyed import sample_keys
from tiryns.runner.samplers import Shuffled

DEFAULTS: dict[str, Any] = {
    "train_dataset_name_or_path": inspect.Parameter.empty,
    "pretrained_tokenizer_name_or_path": inspect.Parameter.empty,
    "objective": "mlm", "max_sequence_length": 512, "val_dataset_name_or_path": None, "train_split": None,
    "val_split": None, "file_format": None, "text_column": "text", "streaming": False, "shuffle": False,
    "num_shards": None, "train_batch_size": 32, "val_batch_size": 32, "num_workers": 0, "collator_kwargs": None,
    "packing": False, "packing_pad_to_budget": False, "cache_dir": None, "data_kwargs": None,
}  # fmt: skip


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


@pytest.mark.rows(2)
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
