"""`data.streaming=true`: global batches of documents that are tokenised as they come."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from tests.runs.test_train import losses
from tiryns.conf.registry import OPTIONS
from tiryns.runner.data import PretrainingData
from tiryns.runner.data.replicas import Replica
from tiryns.runner.data.text.holdout import digest
from tiryns.runner.data.text.streamed import StreamedGlobalBatches, StreamedPretrainingData, StreamLoader
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.objectives import MaskedDiffusionCollator, MaskedLanguageModelingCollator
from tiryns.runner.samplers import LengthGrouped, Sequential, Shuffled


@pytest.fixture(scope="module")
def paragraphs(text_file: Path) -> list[str]:
    return text_file.read_text().split("\n\n")


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory, paragraphs: list[str]) -> str:
    folder = tmp_path_factory.mktemp("streamed") / "tokenizer"
    train_tokenizer(paragraphs, "wordpiece", 200, True).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def streamed(text_file: Path, tokenizer_folder: str, tmp_path: Path) -> Any:
    """The data module of an option `files` on the tests' own text, connected for 40 steps."""

    def make(sampler: Any = Shuffled, objective: Any = MaskedLanguageModelingCollator, **fields: Any) -> Any:
        given = {
            "source": str(text_file), "tokenizer": tokenizer_folder, "validation_documents": 30, "max_length": 24,
            "cache_dir": str(tmp_path / "cache"), "streaming": True, "shuffle_buffer_size": 50, "micro_batch_tokens": 100,
            **fields,
        }  # fmt: skip
        made: Any = OmegaConf.to_container(
            OmegaConf.merge(OmegaConf.structured(OPTIONS["data"]["files"]), given)
        )
        del made["_target_"]
        data = PretrainingData(**made)
        data.prepare_data()
        order = partial(sampler, global_batch_size=12, seed=3)
        data.connect(order, objective(**data.collator_arguments()), 40, None, 0, accept_changes=False)
        return data

    return make


def shares(
    data: Any, rank: int = 0, num_ranks: int = 1, start: int = 0, stop: int = 40
) -> list[dict[str, Any]]:
    batches = data.train_batches(rank, num_ranks)
    batches.start, found = start, []
    for share in batches:
        found.append(share)
        if start + len(found) == stop:
            break
    return found


def hashes(found: list[list[dict[str, Any]]]) -> list[tuple[float, ...]]:
    """Weight and order hash of each global batch, of the shares of all ranks."""
    names = ("weight", "hash_low", "hash_high", "tokens")
    return [tuple(sum(share[name] for share in step) for name in names) for step in zip(*found, strict=True)]


def test_every_document_once_a_pass_in_a_shuffled_order(streamed: Any, paragraphs: list[str]) -> None:
    data = streamed()
    assert isinstance(data, StreamedPretrainingData)
    ids = torch.cat([share["sample_ids"] for share in shares(data)])
    documents = list(dict.fromkeys(map(tuple, ids.tolist())))  # of whose chunks each has an entry
    first = [number for epoch, number in documents if epoch == 0]
    second = [number for epoch, number in documents if epoch == 1]
    assert sorted(first) == list(range(210)), "all but those that are held out"
    assert len(second) == 210
    assert first != second != sorted(second)
    assert all(number <= place + 50 for place, number in enumerate(first)), "none from beyond the buffer"
    assert max(epoch for epoch, _ in documents) == 2


def test_validation_documents_are_the_first_and_not_trained_on(streamed: Any, paragraphs: list[str]) -> None:
    data = streamed()
    held_out = {digest(paragraph) for paragraph in paragraphs[:30]}
    assert data.validation_names == ["held_out"]
    assert all(digest(document) not in held_out for document in data.stream_source.documents())
    assert data.token_baselines()["val/held_out/unigram_entropy"] > 0
    assert streamed(validation_documents=0).validation_names == []


def test_one_validation_source_needs_no_name(streamed: Any, paragraphs: list[str], tmp_path: Path) -> None:
    (tmp_path / "river.txt").write_text(paragraphs[0])
    data = streamed(validation=str(tmp_path / "river.txt"))
    assert data.validation_names == ["validation"]
    assert paragraphs[0] not in data.stream_source.documents()


@pytest.mark.rows(1)
@pytest.mark.parametrize("objective", [MaskedLanguageModelingCollator, MaskedDiffusionCollator])
@pytest.mark.parametrize(
    ("ranks", "fields"),
    [(2, {}), (5, {"micro_batch_tokens": 60}), (1, {"micro_batch_size": 2, "layout": "padded"})],
)
def test_global_batches_do_not_depend_on_the_layout(
    streamed: Any, objective: Any, ranks: int, fields: dict[str, Any]
) -> None:
    whole = hashes([shares(streamed(objective=objective), stop=20)])
    data = streamed(objective=objective, **fields)
    assert hashes([shares(data, rank, ranks, stop=20) for rank in range(ranks)]) == whole
    assert hashes([shares(streamed(objective=objective, seed=1), stop=20)]) == whole, (
        "which holds out other documents"
    )


def test_layout_single_gives_every_chunk_a_micro_batch(streamed: Any) -> None:
    whole, single = shares(streamed(), stop=3), shares(streamed(layout="single"), stop=3)
    assert {len(micro["input_ids"]) for share in single for micro in share["micro_batches"]} == {1}
    assert hashes([single]) == hashes([whole])


@pytest.mark.slow
def test_global_batches_begin_anywhere(streamed: Any) -> None:
    data = streamed()
    whole = shares(data)
    for ours, theirs in zip(whole[23:], shares(data, start=23), strict=True):
        for a, b in zip(ours["micro_batches"], theirs["micro_batches"], strict=True):
            assert all(torch.equal(a[name], b[name]) for name in ("input_ids", "labels"))
    assert hashes([shares(streamed(sampler=Sequential))]) != hashes([whole])


def test_first_batch_comes_before_the_source_is_read(streamed: Any) -> None:
    data = streamed(validation_documents=0)
    asked = 0

    class Long:
        tokenized = False

        def documents(self) -> Iterator[str]:
            nonlocal asked
            for asked in range(10**9):  # noqa: B007
                yield "seven herons watch the river"

    data.stream_source = Long()
    assert len(shares(data, stop=3)[2]["micro_batches"]) > 0
    assert asked < 50 + 3 * 12 + 1


def test_what_cannot_be_streamed_is_refused(streamed: Any) -> None:
    for fields, message in (
        ({"tokenizer": None}, "data.tokenizer"),
        ({"validation_documents": 0.1}, "a number of documents"),
        ({"sampler": LengthGrouped}, "as they come"),
        ({"length_warmup_steps": 5}, "a warm-up of the sequence length needs both"),
    ):
        with pytest.raises(ValueError, match=message):
            streamed(**fields)
    data = streamed()
    with pytest.raises(ValueError, match=r"trainer\.max_steps"):
        data.connect(
            partial(Shuffled, global_batch_size=12, seed=3), data.collator, -1, 2.0, 0, accept_changes=False
        )


@pytest.mark.slow
def test_run_resumes_in_another_layout(
    run_here: Callable[..., Any], tmp_path: Path, tokenizer_folder: str
) -> None:
    """The same order and losses, with other numbers of loader processes; another buffer is another order."""
    options = [
        "data.streaming=true", f"data.tokenizer={tokenizer_folder}", "data.validation_documents=10",
        "data.shuffle_buffer_size=20", "trainer.max_steps=4", "trainer.validate_every=0", "checkpoint.every_steps=2",
    ]  # fmt: skip

    whole = run_here(*options, folder="whole")
    run_here(*options, "trainer.max_steps=2", folder="stopped")
    resume = f"resume={tmp_path / 'stopped'}"
    with pytest.raises(ValueError, match="buffer_size was 20 and is 21"):
        run_here(*options, "data.shuffle_buffer_size=21", resume, folder="other")
    resumed = run_here(*options, "data.num_workers=2", resume, folder="stopped")
    assert (resumed.path / "order.txt").read_text() == (whole.path / "order.txt").read_text()
    assert losses(resumed) == losses(whole)
    assert len(losses(whole)) == 4


def loader_of(data: Any, start: int) -> StreamLoader:
    """What a rank alone trains from, by two loader processes."""
    batches = data.train_batches(0, 1)
    batches.start = start
    data.num_workers = 2
    return StreamLoader(batches, data, Replica(0, 1, None), torch.device("cpu"))


@pytest.mark.slow
def test_killed_loader_process_is_replaced_and_no_batch_is_lost_or_doubled(
    streamed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data, whole = streamed(), StreamedGlobalBatches.share

    def deadly(batches: StreamedGlobalBatches, step: int, documents: Any) -> Any:
        if step == 9 and not (mark := tmp_path / "killed").exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(batches, step, documents)

    expected = shares(data, start=5, stop=20)
    monkeypatch.setattr(StreamedGlobalBatches, "share", deadly)
    found: list[Any] = list(islice(loader_of(data, start=5), 15))
    assert (tmp_path / "killed").exists()
    assert hashes([found]) == hashes([expected])
