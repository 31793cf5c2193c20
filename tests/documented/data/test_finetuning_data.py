"""`runner.data.FinetuningDataModule` in plain Python."""

import inspect
import json
from pathlib import Path
from typing import Any

import datasets
import lightning
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from transformers import AutoTokenizer

from tests.data.labelled.tasks import questions, sentences, texts
from tiryns.runner.data import FinetuningDataModule

DEFAULTS: dict[str, Any] = {
    "task": inspect.Parameter.empty, "pretrained_tokenizer_name_or_path": inspect.Parameter.empty,
    "dataset_name_or_path": None, "dataset_config_name": None, "max_sequence_length": 512, "train_split": "train",
    "val_split": "validation", "test_split": "test", "text_column": "text", "label_column": "label",
    "train_batch_size": 32, "val_batch_size": 32, "test_batch_size": 32, "num_workers": 0, "shuffle_train": True,
    "collator_kwargs": None,
}  # fmt: skip
ROWS = [{"text": row["text"], "label": number % 3} for number, row in enumerate(texts(20))]


@pytest.fixture
def new(tokenizer_folder: str) -> Any:
    def make(task: str = "classification", **options: Any) -> FinetuningDataModule:
        given = {"max_sequence_length": 48, "train_batch_size": 8, "val_batch_size": 5, "test_batch_size": 4}
        return FinetuningDataModule(task, tokenizer_folder, **{**given, **options})

    return make


def labels(loader: Any) -> list[int]:
    return [label for batch in loader for label in batch["labels"].tolist()]


def test_signature(tokenizer_folder: str) -> None:
    documented = inspect.signature(FinetuningDataModule).parameters
    assert {n: p.default for n, p in list(documented.items())[: len(DEFAULTS)]} == DEFAULTS
    assert list(documented)[: len(DEFAULTS)] == list(DEFAULTS)
    assert all(p.default is not p.empty for n, p in documented.items() if n not in DEFAULTS)
    assert issubclass(FinetuningDataModule, lightning.LightningDataModule)
    with pytest.raises(ValueError, match="question_answering"):
        FinetuningDataModule("summarisation", tokenizer_folder)


def test_prepare_data_and_setup(new: Any) -> None:
    data = new()
    with pytest.raises(ValueError, match="set_datasets"):
        data.prepare_data()
    for stage in ("fit", "validate", "test", "predict", None):
        data = new()
        data.set_datasets(ROWS, ROWS, ROWS)
        data.prepare_data()
        data.setup(stage)
        assert len(labels(data.val_dataloader())) == len(labels(data.test_dataloader())) == len(ROWS)


@pytest.mark.parametrize("kind", [list, datasets.Dataset.from_list])
def test_set_datasets(new: Any, kind: Any) -> None:
    gappy = [{**row, "label": (0, 4, 2)[row["label"]]} for row in ROWS]
    data = new(shuffle_train=False)
    data.set_datasets(train=kind(gappy))
    assert labels(data.train_dataloader()) == [row["label"] for row in gappy], "integers keep their numbers"
    data.set_datasets(train=[{**row, "label": np.int64(row["label"])} for row in gappy])
    assert labels(data.train_dataloader()) == [row["label"] for row in gappy]
    assert data.val_dataloader() == data.test_dataloader() == []
    data.set_datasets(val=kind(ROWS))
    assert data.train_dataloader() == data.test_dataloader() == []
    assert labels(data.val_dataloader()) == [row["label"] for row in ROWS]
    data.set_datasets(test=kind(ROWS[:3]))
    assert labels(data.test_dataloader()) == [0, 1, 2]
    named = [{**row, "label": ("never", "always", "maybe")[row["label"]]} for row in ROWS]
    data.set_datasets(train=kind(named))
    assert data.label_names == ["always", "maybe", "never"]
    assert labels(data.train_dataloader()) == [data.label_names.index(row["label"]) for row in named]
    data.set_datasets(train=kind(named), val=kind([{"text": "a river", "label": "often"}]))
    with pytest.raises(ValueError, match="often"):
        data.setup()


def test_hidden_labels_of_a_test_set_are_unknown_and_codes_are_no_class_numbers(new: Any) -> None:
    data = new()
    data.set_datasets(train=ROWS, test=[{**row, "label": -1} for row in ROWS[:3]])
    assert labels(data.test_dataloader()) == [-100] * 3
    data.set_datasets(train=[{**ROWS[0], "label": 10**9}, ROWS[1]])
    with pytest.raises(ValueError, match=r"label 1000000000 is no class number: .* number the labels from 0"):
        data.setup()


def test_integers_keep_their_numbers_where_others_lack_a_label_in_lists_and_of_words(new: Any) -> None:
    data, words = new(), new("token_classification")
    for kind in (lambda label: label, lambda label: [label]):
        rows = [{**row, "label": kind(2 * row["label"])} for row in ROWS]
        data.set_datasets(train=rows, test=[{**row, "label": None} for row in ROWS])
        assert data.label_names == ["0", "1", "2", "3", "4"]
    words.set_datasets(train=[{"words": ["a", "river"], "labels": [0, 2]}])
    assert words.label_names == ["0", "1", "2"]


def test_the_classes_are_those_of_the_training_set_whatever_a_later_file_names(new: Any) -> None:
    kinds = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    rows = {"text": ["one", "two"], "label": [0, 1]}
    named = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    data = new()
    data.set_datasets([{"text": "one", "label": 3}, {"text": "two", "label": 1}], named)
    assert data.label_names == ["0", "1", "2", "3"]
    assert labels(data.val_dataloader()) == [0, 1]
    turned = new()
    other = datasets.Features({**kinds, "label": datasets.ClassLabel(names=["pos", "neg"])})
    turned.set_datasets(named, datasets.Dataset.from_dict(rows, features=other))
    assert turned.label_names == ["neg", "pos"]
    assert labels(turned.val_dataloader()) == [1, 0]


def test_collator_kwargs_that_change_no_batch_are_refused(new: Any) -> None:
    for name in ("class_weights", "text_column", "new_head"):
        data = new(collator_kwargs={name: "balanced"})
        data.set_datasets(ROWS)
        with pytest.raises(ValueError, match=f"collator_kwargs: {name} is for the data module itself"):
            data.setup()


def test_dataloaders(new: Any, tokenizer_folder: str) -> None:
    data = new()
    data.set_datasets(ROWS, ROWS, ROWS[:10])
    loaders = [data.train_dataloader(), data.val_dataloader(), data.test_dataloader()]
    assert all(isinstance(loader, DataLoader) for loader in loaders)
    sizes = [[len(batch["labels"]) for batch in loader] for loader in loaders]
    assert sizes == [[8, 8, 4], [5, 5, 5, 5], [4, 4, 2]]
    batches = list(loaders[1])
    assert labels(batches) == [row["label"] for row in ROWS]
    assert set(batches[0]) == {"input_ids", "attention_mask", "labels"}
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    expected = tokenizer(
        [row["text"] for row in ROWS[:5]], padding=True, truncation=True, max_length=48, return_tensors="pt"
    )
    assert torch.equal(batches[0]["input_ids"], expected["input_ids"])


def test_shuffle_train(new: Any) -> None:
    rows = [{"text": row["text"], "label": number} for number, row in enumerate(ROWS)]
    data = new(shuffle_train=False)
    data.set_datasets(rows)
    assert labels(data.train_dataloader()) == list(range(20))
    data = new(num_workers=2)
    data.set_datasets(rows)
    loader = data.train_dataloader()
    passes = [labels(loader) for _ in range(2)]
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(20))


def test_dataset_name_or_path_and_splits(new: Any, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, count in {"train": 12, "validation": 6, "held": 3}.items():
        (folder / f"{name}.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS[:count]))
    table = datasets.Dataset.from_list(ROWS)
    saved = {
        "train": table.select(range(12)),
        "validation": table.select(range(6)),
        "held": table.select(range(3)),
    }
    datasets.DatasetDict(saved).save_to_disk(str(tmp_path / "saved"))
    for path in (folder, tmp_path / "saved"):
        data = new(dataset_name_or_path=str(path))
        assert len(labels(data.train_dataloader())) == 12
        assert labels(data.val_dataloader()) == [row["label"] for row in ROWS[:6]]
        assert data.test_dataloader() == [], "there is no split test"
        data = new(dataset_name_or_path=str(path), test_split="held")
        assert len(labels(data.test_dataloader())) == 3
        with pytest.raises(ValueError, match=r"'training2'.*held.*train"):
            new(dataset_name_or_path=str(path), train_split="training2").setup()
    with pytest.raises(ValueError, match=r"no split .held.; it has: train\. Set val_split"):
        new(dataset_name_or_path=str(folder / "train.jsonl"), val_split="held").setup()
    with pytest.raises((ValueError, FileNotFoundError), match="nowhere"):
        new(dataset_name_or_path=str(tmp_path / "nowhere")).setup()


def test_dataset_config_name(new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def load_dataset(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    data = new(dataset_name_or_path="owner/texts", dataset_config_name="english")
    assert len(labels(data.train_dataloader())) == 20
    assert calls == [("owner/texts", "english")]


@pytest.mark.parametrize("numbered", [False, True])
def test_task_token_classification(new: Any, tokenizer_folder: str, numbered: bool) -> None:
    names = ["O", "B-ANIMAL", "B-PLACE", "I-PLACE"]
    rows = sentences(20)
    if numbered:
        rows = [{**row, "labels": [names.index(tag) for tag in row["labels"]]} for row in rows]
    data = new("token_classification", text_column="words", label_column="labels")
    data.set_datasets(val=rows)
    batch = next(iter(data.val_dataloader()))
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    for number, row in enumerate(sentences(20)[:5]):
        words = tokenizer(row["words"], is_split_into_words=True).word_ids()
        expected = [-100] * batch["labels"].shape[1]
        for word, label in enumerate(row["labels"]):
            expected[words.index(word)] = names.index(label)
        assert batch["labels"][number].tolist() == expected


@pytest.mark.parametrize("columns", [{}, {"text_column": "question", "label_column": "answers"}])
def test_task_question_answering(new: Any, tokenizer_folder: str, columns: dict[str, str]) -> None:
    rows = questions(20)
    data = new(
        "question_answering", **columns, collator_kwargs={"doc_stride": 8, "context_column": "context"}
    )
    data.set_datasets(val=rows)
    batches = list(data.val_dataloader())
    assert set(batches[0]) == {"input_ids", "attention_mask", "start_positions", "end_positions"}
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    found = [
        tokenizer.decode(ids[int(first) : int(last) + 1])
        for batch in batches
        for ids, first, last in zip(
            batch["input_ids"], batch["start_positions"], batch["end_positions"], strict=True
        )
        if last
    ]
    owners = data.sets["val"].questions
    assert len(owners) > len(rows), "long contexts become windows"
    assert all(len(batch["input_ids"]) <= 5 and batch["input_ids"].shape[1] <= 48 for batch in batches)
    answered = [row["answers"]["text"][0] for row in rows if row["answers"]["text"]]
    assert set(found) == set(answered)
    spans = torch.cat([batch["end_positions"] for batch in batches]) > 0
    with_answer = {number for number, row in enumerate(rows) if row["answers"]["text"]}
    assert {int(owner) for owner, span in zip(owners, spans, strict=True) if span} == with_answer, (
        "no answer is lost"
    )
