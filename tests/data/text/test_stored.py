"""Training on `store:FOLDER`: order, resume and fingerprint are those of the store, however it is divided."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.conftest import train_here
from tests.data.store.sharded import sharded_folder
from tests.data.text.conftest import paragraphs
from tests.objectives.samples import collator
from tiryns.conf.data.pretraining import Files
from tiryns.conf.phases import phases_of
from tiryns.runner.data.store.sharded import INDEX
from tiryns.runner.data.text.pretraining import PretrainingData
from tiryns.runner.data.text.stored import StoredPretrainingData
from tiryns.runner.data.text.tokenizer import tokenizer_fingerprint, train_tokenizer
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.samplers import Shuffled


@pytest.fixture(scope="module", name="tokenizer")
def tokenizer_fixture() -> Any:
    return train_tokenizer(paragraphs(50), "wordpiece", 60, True)


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path, tokenizer: Any) -> Path:
    return stored(tmp_path / "store", tokenizer, 9, 1, 13)


def stored(folder: Path, tokenizer: Any, *sizes: int, **fields: Any) -> Path:
    sharded_folder(folder, *sizes, tokenizer=tokenizer_fingerprint(tokenizer), **fields)
    tokenizer.save_pretrained(folder / "tokenizer")
    return folder


def data_of(place: Any, cache: Path, **settings: Any) -> PretrainingData:
    given = {"source": f"store:{place}", "tokenizer": None, "max_length": 16, "cache_dir": str(cache)}
    fields = {name: field.default for name, field in Files.__dataclass_fields__.items() if name != "_target_"}
    return PretrainingData(
        **fields | {"num_workers": 0, "micro_batch_tokens": 2048, "layout": "padded"} | given | settings
    )


def connected(place: Path, **settings: Any) -> PretrainingData:
    data = data_of(place, place.parent / "cache", **settings)
    data.prepare_data()
    make = partial(Shuffled, global_batch_size=5, seed=1)
    data.connect(make, collator("mlm"), 6, None, seed=1, accept_changes=False)
    strategy: Any = SimpleNamespace(root_device=torch.device("cpu"))
    data.trainer = SimpleNamespace(global_rank=0, world_size=1, global_step=3, strategy=strategy)  # type: ignore[assignment]
    return data


def test_run_trains_on_a_store_and_its_manifest_says_on_which(folder: Path, tmp_path: Path) -> None:
    short = ["data.max_length=16", "trainer.max_steps=2", "trainer.validate_every=0"]
    run = train_here(tmp_path / "run", f"store:{folder}", *short)  # type: ignore[arg-type]
    inputs = read_manifest(run.path)["inputs"]
    assert (inputs["data"], inputs["evaluation"]) == ("train of 23", {"held_out": "held_out of 7"})
    assert inputs["sources"] == {"train": {"source": "store"}}


def test_summary_names_the_store_and_what_it_holds(folder: Path) -> None:
    data = connected(folder)
    assert isinstance(data, StoredPretrainingData)
    shown = data.describe()
    assert shown["source"] == f"store:{folder}"
    assert shown["training"].startswith("23 documents, 23 sequences, ")
    assert shown["validation"] == "held_out: 7 sequences"
    assert shown["vocabulary"] == "60 tokens"
    figures = data.token_baselines()
    assert figures["val/held_out/unigram_entropy"] == 3.5
    assert figures["val/held_out/tokens_per_byte"] == 0.25


def test_order_and_resume_are_the_same_however_the_store_is_divided(
    folder: Path, tmp_path: Path, tokenizer: Any
) -> None:
    data, whole = connected(folder), connected(stored(tmp_path / "whole", tokenizer, 23))
    assert len(data.train.shards) == 3  # type: ignore[attr-defined]
    assert data.fingerprint() == whole.fingerprint() == "train of 23"
    batches = [list(each.train_dataloader()) for each in (data, whole)]
    assert len(batches[0]) == 6
    for ours, theirs in zip(*batches, strict=True):
        assert ours["sample_ids"].tolist() == theirs["sample_ids"].tolist()
        assert ours["hash_low"] == theirs["hash_low"]
    resumed = connected(folder)
    resumed.load_state_dict(whole.state_dict())
    left = list(resumed.train_dataloader())
    assert [batch["hash_low"] for batch in left] == [batch["hash_low"] for batch in batches[0][3:]]


def test_resume_on_another_store_is_refused(folder: Path, tmp_path: Path, tokenizer: Any) -> None:
    other = connected(stored(tmp_path / "other", tokenizer, 22))
    with pytest.raises(ValueError, match="another sample order: data was 'train of 23' and is 'train of 22'"):
        other.load_state_dict(connected(folder).state_dict())


def test_settings_that_contradict_the_store_are_refused(folder: Path, tmp_path: Path) -> None:
    def refused(words: str, **settings: Any) -> None:
        with pytest.raises(ValueError, match=words):
            data_of(folder, tmp_path / "cache", **settings).prepare_data()

    refused("data.max_length=32, but .* were cut with 16: set data.max_length=16", max_length=32)
    refused("data.long_documents=tokens, but", long_documents="tokens")
    refused("data.streaming cannot be given .* is tokenised already", streaming=True)
    refused("data.validation cannot be given .* held-out documents", validation={"more": "a.txt"})
    other = train_tokenizer(paragraphs(50), "wordpiece", 50, True)
    other.save_pretrained(tmp_path / "other")
    refused("is not the tokenizer of .*store, which is in", tokenizer=str(tmp_path / "other"))
    data_of(folder, tmp_path / "cache", tokenizer=str(folder / "tokenizer")).prepare_data()
    with pytest.raises(ValueError, match="a prepared store is read alone, and for pretraining only"):
        data_of(folder, tmp_path / "cache", source=[f"store:{folder}", "a.txt"])


def test_altered_shard_is_found(folder: Path, tmp_path: Path) -> None:
    path = folder / "shards/00001/train/tokens.bin"
    path.write_bytes(bytes(len(path.read_bytes())))
    with pytest.raises(ValueError, match="shards/00001/train is damaged"):
        connected(folder)
    (folder / INDEX).write_text(json.dumps({"format_version": 0}))
    with pytest.raises(ValueError, match="format version 0"):
        connected(folder)


LONGER = [{"name": "same", "steps": 3}, {"name": "long", "steps": 3, "data": {"max_length": 32}}]


def of_phases(folder: Path, phases: list[dict[str, Any]] = LONGER) -> PretrainingData:
    data = data_of(folder, folder.parent / "cache")
    data.phases = phases_of(phases)
    data.prepare_data()
    return data


def beside(folder: Path, tokenizer: Any, **changed: Any) -> Path:
    """The store of length 32 beside one of 16, with plans that differ as is said."""
    other = stored(Path(f"{folder}@32"), tokenizer, 3, 5, max_length=32)
    plan = {"seed": 0, "files": ["a"], "tasks": 3, "attributes": {"tokenizer": "t", "max_length": 16}}
    (folder / "plan.json").write_text(json.dumps(plan))
    plan = {**plan, "tasks": 2, "attributes": {"tokenizer": "t", "max_length": 32}} | changed
    (other / "plan.json").write_text(json.dumps(plan))
    return other


def test_phases_read_the_store_of_their_length(folder: Path, tokenizer: Any) -> None:
    beside(folder, tokenizer)
    data = of_phases(folder)
    assert [(store.data.max_length, len(store.data.train)) for store in data.stores] == [(16, 23), (32, 8)]
    assert {name: len(store) for name, store in data.validation.items()} == {"held_out": 7}
    alone = data_of(folder, folder.parent / "cache", max_length=32)
    alone.prepare_data()
    assert (len(alone.train), alone.fingerprint()) == (8, "train of 8")
    named = [{"name": "same", "steps": 3}, {"name": "named", "steps": 3, "data": {"max_length": 16}}]
    assert [store.data.max_length for store in of_phases(folder, named).stores] == [16]


def test_phase_of_a_length_that_is_not_prepared_is_refused(folder: Path) -> None:
    words = r"phase long: data\.max_length=32, but .* cut with 16: .* --max-length 16 32, which also makes .*store@32"
    with pytest.raises(ValueError, match=words):
        of_phases(folder)


@pytest.mark.parametrize(
    ("changed", "named"), [({"seed": 1}, "seed"), ({"attributes": {"tokenizer": "u"}}, "tokenizer")]
)
def test_store_of_other_documents_is_refused(
    folder: Path, tokenizer: Any, changed: dict[str, Any], named: str
) -> None:
    beside(folder, tokenizer, **changed)
    message = f"store@32 and .*store differ not only in the length of sequences but in {named}:"
    with pytest.raises(ValueError, match=message):
        of_phases(folder)
