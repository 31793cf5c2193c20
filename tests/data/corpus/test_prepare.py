"""Corpora prepared with datatrove: one store, however many tasks, wherever they ran, however they were killed."""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from tests.data.corpus.conftest import REPEATED
from tests.data.text.conftest import prepared_in
from tests.support import needs
from tiryns.runner.data.corpus.plan import Step
from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.store.sharded import open_store
from tiryns.runner.data.store.writer import StoreWriter

needs.package("datatrove")

Prepare = Callable[..., Any]


def content(place: Any, cache: Path) -> dict[str, list[list[int]]]:
    sets = open_store(str(place), cache).sets
    return {name: [store[i].tolist() for i in range(len(store))] for name, store in sets.items()}


def fingerprints(index: dict[str, Any]) -> dict[str, str]:
    return {name: part["fingerprint"] for name, part in index["sets"].items()}


def all_texts(texts: Path) -> list[str]:
    lines = "".join(path.read_text() for path in sorted(texts.iterdir())).splitlines()
    return [json.loads(line)["text"] for line in lines]


def test_store_is_the_same_for_any_number_of_tasks(prepare: Prepare, tmp_path: Path) -> None:
    """Content, order and fingerprints; more tasks than files leave some without a shard."""
    made = {tasks: prepare(f"of_{tasks}", tasks=tasks) for tasks in (1, 3, 7)}
    assert [len(index["sets"]["train"]["shards"]) for index in made.values()] == [1, 3, 5]
    first = content(tmp_path / "of_1", tmp_path)
    for tasks, index in made.items():
        assert fingerprints(index) == fingerprints(made[1])
        assert content(tmp_path / f"of_{tasks}", tmp_path) == first
        counts = {name: part["num_sequences"] for name, part in index["sets"].items()}
        assert counts == {name: len(rows) for name, rows in first.items()}
        for name in ("documents", "num_tokens", "num_bytes", "unigram_entropy", "tokens_per_byte"):
            held = [found["sets"]["held_out"].get(name) for found in made.values()]
            assert held == held[:1] * 3, name
    other = prepare("other_seed", seed=1)
    assert fingerprints(other)["train"] != fingerprints(made[1])["train"]
    assert fingerprints(prepare("cut", max_length=12))["train"] != fingerprints(made[1])["train"]


def test_store_holds_what_an_ordinary_preparation_does(prepare: Prepare, texts: Path, tmp_path: Path) -> None:
    prepare(validation=0, tasks=2)
    source, tokenizer = open_source(str(texts), "text", "train", "line"), str(tmp_path / "store/tokenizer")
    ordinary = prepared_in(tmp_path / "cache", source, validation_documents=0, tokenizer=tokenizer)
    whole = TokenStore(ordinary.train)
    ours = open_store(str(tmp_path / "store"), tmp_path).sets["train"]
    assert ours.gather(np.arange(len(ours)))[0].tolist() == whole.tokens.tolist()
    assert ours.lengths(np.arange(len(ours))).tolist() == np.diff(whole.offsets).tolist()
    assert sum(shard.num_bytes or 0 for shard in ours.shards) == whole.num_bytes


def test_no_text_is_in_both_sets(prepare: Prepare, texts: Path, tmp_path: Path) -> None:
    index = prepare(tasks=3, max_length=200, validation=0.3)
    found = content(tmp_path / "store", tmp_path)
    sets = {name: {tuple(row) for row in rows} for name, rows in found.items()}
    assert not sets["train"] & sets["held_out"]
    assert len(sets["train"]) + len(sets["held_out"]) == len({*all_texts(texts)})
    assert index["sets"]["train"]["documents"] + index["sets"]["held_out"]["documents"] == len(
        all_texts(texts)
    )


@pytest.mark.parametrize("name", ["exact", "minhash"])
def test_of_repeated_documents_one_is_kept_whatever_the_tasks(
    prepare: Prepare, texts: Path, tmp_path: Path, name: str
) -> None:
    if name == "minhash":
        needs.package("spacy")
    step = Step(name, {"num_buckets": 4, "n_grams": 3} if name == "minhash" else {})
    made = [prepare(f"of_{tasks}", tasks=tasks, deduplicate=step, validation=0) for tasks in (1, 3)]
    assert made[0]["sets"]["train"]["documents"] == len(all_texts(texts)) - REPEATED * 4
    assert len({*all_texts(texts)}) == len(all_texts(texts)) - REPEATED * 4
    assert fingerprints(made[0]) == fingerprints(made[1])
    assert content(tmp_path / "of_1", tmp_path) == content(tmp_path / "of_3", tmp_path)


def test_filters_leave_what_they_are_set_to_leave(prepare: Prepare, texts: Path, tmp_path: Path) -> None:
    index = prepare(filters=[Step("RegexFilter", {"regex_exp": "heron"})], tasks=2, validation=0)
    left = [text for text in all_texts(texts) if "heron" not in text]
    assert index["sets"]["train"]["documents"] == len(left)
    assert 0 < len(left) < len(all_texts(texts))
    with pytest.raises(ValueError, match="no document is left to train on"):
        prepare("none", filters=[Step("RegexFilter", {"regex_exp": "."})])


@pytest.mark.slow
def test_source_and_store_may_be_remote(prepare: Prepare, texts: Path, tmp_path: Path) -> None:
    import fsspec

    system, place = fsspec.filesystem("memory"), f"memory:///{uuid4().hex}"
    for path in texts.iterdir():
        system.pipe_file(f"{place}/texts/{path.name}", path.read_bytes())
    index = prepare(f"{place}/store", source=f"{place}/texts", tasks=3, deduplicate=Step("exact", {}))
    assert fingerprints(index) == fingerprints(prepare("here", tasks=1, deduplicate=Step("exact", {})))
    assert content(f"{place}/store", tmp_path / "cache") == content(tmp_path / "here", tmp_path)


def test_restart_goes_on_with_the_tasks_that_are_left(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted while the second of three shards is half written; what such a task left is no part of the store."""
    whole, finish = prepare("whole", tasks=3), StoreWriter.finish

    def dying(writer: StoreWriter) -> None:
        if "00001" in str(writer.folder):
            raise KeyboardInterrupt
        finish(writer)

    with monkeypatch.context() as patched:
        patched.setattr(StoreWriter, "finish", dying)
        with pytest.raises(KeyboardInterrupt):
            prepare("killed", tasks=3)
    shards = tmp_path / "killed" / "shards"
    (shards / ".00001.partial" / "left").mkdir(parents=True)
    assert [path.name for path in shards.iterdir() if path.name[0] != "."] == ["00000"]
    before = (shards / "00000" / "record.json").stat().st_mtime_ns
    with pytest.raises(FileNotFoundError, match="begun but is not finished"):
        open_store(str(tmp_path / "killed"), tmp_path)
    with pytest.raises(ValueError, match="seed was 0 and is 1"):
        prepare("killed", tasks=3, seed=1)
    assert prepare("killed", tasks=3) == whole
    assert (shards / "00000" / "record.json").stat().st_mtime_ns == before
    assert sorted(path.name for path in shards.iterdir()) == ["00000", "00001", "00002"]
    index = (tmp_path / "killed" / "store.json").stat().st_mtime_ns
    assert prepare("killed", tasks=3) == whole
    assert (tmp_path / "killed" / "store.json").stat().st_mtime_ns == index


def test_wrong_words_are_answered_in_one_line(prepare: Prepare, tmp_path: Path) -> None:
    def refused(words: str, **given: Any) -> None:
        with pytest.raises(ValueError, match=words) as caught:
            prepare("refused", **given)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "refused").exists()

    refused(r"--filter='GopherQuality'; there are: .*Did you mean", filters=[Step("GopherQuality", {})])
    refused("RegexFilter.regex: there are .*regex_exp", filters=[Step("RegexFilter", {"regex": "a"})])
    refused("RegexFilter: missing .*regex_exp", filters=[Step("RegexFilter", {})])
    refused("--filter='SamplerFilter'; there are", filters=[Step("SamplerFilter", {"rate": 0.5})])
    refused("--deduplicate='exactly'.*'exact'", deduplicate=Step("exactly", {}))
    refused("exact.plan: there are finder_workers", deduplicate=Step("exact", {"plan": 1}))
    refused("--executor='dask'; there are: local, slurm, ray", executor=Step("dask", {}))
    refused("local.tasks: there are", executor=Step("local", {"tasks": 3}))
    refused("slurm: missing .*time", executor=Step("slurm", {"partition": "main"}))
    refused("--validation 20.0: expected a share", validation=20.0)
    refused("--tasks 0", tasks=0)
    refused("data.long_documents='words'", long_documents="words")


@pytest.mark.slow
def test_killed_worker_is_replaced_and_the_store_is_whole(prepare: Prepare, tmp_path: Path) -> None:
    """Three real processes; each worker is killed with SIGKILL as soon as it has begun."""
    whole, shards = prepare("whole", tasks=7), tmp_path / "killed" / "shards"
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < 2:
            for child in multiprocessing.active_children():
                assert child.pid is not None
                if child.pid not in killed and len(killed) < 2 and child.name.startswith("SpawnProcess"):
                    while child.is_alive() and not list(shards.glob("*")):
                        time.sleep(0.01)
                    os.kill(child.pid, signal.SIGKILL)
                    killed.append(child.pid)
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    index = prepare("killed", tasks=7, workers=2)
    killer.join()
    assert len(killed) == 2
    assert fingerprints(index) == fingerprints(whole)


@pytest.mark.slow
def test_ray_makes_the_same_store(prepare: Prepare) -> None:
    ray = needs.package("ray")
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    try:
        index = prepare(
            "ray", tasks=3, executor=Step("ray", {"mem_per_cpu_gb": 0.1}), deduplicate=Step("exact", {})
        )
    finally:
        ray.shutdown()
    assert fingerprints(index) == fingerprints(prepare("here", deduplicate=Step("exact", {})))
