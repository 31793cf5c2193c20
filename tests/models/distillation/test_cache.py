"""What a teacher says, kept on disk: computed once, whoever asks, and the same as without a cache."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.models.distillation.test_classifier import student_of, teacher_of
from tests.models.tiny import taught
from tests.objectives.labelled.test_finetuning import case, collated
from tests.support.precision import assert_close, in_fp32
from tests.support.run_data import GivenData
from tiryns.conf.objective.labelled import SequenceClassification
from tiryns.runner.models.distillation import classifier
from tiryns.runner.models.distillation.classifier import outputs_of


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(classifier, "PIECE", 5)
    monkeypatch.setattr(classifier, "AT_ONCE", 3)
    monkeypatch.setenv("TIRYNS_CACHE", str(tmp_path / "cache"))


def data_of(sequences: Any, collator: Any, **more: Any) -> Any:
    known = {"train": sequences, "collator": collator, "seed": 1, "layout": "padded", "accept_changes": False}
    return SimpleNamespace(**known, transfer_batch_to_device=lambda batch, *_: batch, **more)


class Asked:
    """Notes the samples that it is asked about."""

    def __init__(self) -> None:
        self.samples: list[int] = []

    def __call__(self, micro_batch: Any) -> Tensor:
        numbers = micro_batch["samples"]
        self.samples += numbers.tolist()
        return torch.stack([numbers, micro_batch["attention_mask"].sum(1)], 1).half()


def test_each_sample_is_asked_about_once_and_kept_by_its_number() -> None:
    sequences, collator = case("classification")
    data, ask = data_of(sequences, collator), Asked()
    found = outputs_of(data, "a", ask, rank=1)
    assert sorted(ask.samples) == list(range(12))
    expected = np.stack([np.arange(12), sequences.lengths(np.arange(12))], 1)
    assert (found.numpy() == expected).all()
    assert found.dtype == torch.float32
    again = Asked()
    assert outputs_of(data, "a", again).equal(found)
    assert not again.samples
    outputs_of(data, "another teacher", again)
    assert len(again.samples) == 12
    sequences, collator = case("regression")
    outputs_of(data_of(sequences, collator), "a", again)
    assert len(again.samples) == 24, "other data"


def test_what_a_killed_process_left_is_completed(tmp_path: Path) -> None:
    data, whole = data_of(*case("classification")), Asked()
    expected = outputs_of(data, "a", whole)
    pieces = sorted((tmp_path / "cache").rglob("*.npy"))
    assert [path.name for path in pieces] == ["000000.npy", "000001.npy", "000002.npy"]
    pieces[1].rename(pieces[1].with_name(".000001.npy.partial"))
    some = Asked()
    assert outputs_of(data, "a", some).equal(expected)
    assert some.samples == [5, 6, 7, 8, 9]


def test_several_at_once_share_the_work() -> None:
    data, asked = data_of(*case("classification")), [Asked() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda rank: outputs_of(data, "a", asked[rank], rank), range(4)))
    assert all(one.equal(found[0]) for one in found)
    assert sorted(sample for each in asked for sample in each.samples) == list(range(12))


@pytest.mark.rows(3)
@pytest.mark.parametrize("layout", ["padded", "packed", "single"])
@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression"])
def test_a_student_learns_the_same_from_the_cache(kind: str, layout: str) -> None:
    sequences, collator = case(kind)
    student = student_of(collator, teacher_of(collator), taught(0.5, 0.5, kind=SequenceClassification))
    if layout == "packed":
        student.pack_rows()
    data = data_of(sequences, collator)
    data.layout = layout
    batch = collated(sequences, collator, [7, 2, 11])
    if layout == "packed":
        chosen = np.array([7, 2, 11])
        ids, lengths = sequences.gather(chosen)
        keys = batch["sample_keys"].numpy().view("uint64")
        flat = {**sequences.extras(chosen), "input_ids": ids, "lengths": lengths, "keys": keys}
        batch = collator({**flat, "packed": True})
    expected = student(batch)["loss"]
    student.before_training(data, {"objective.teacher": "a"}, 0)
    assert student.teacher_outputs is None, "not unless it is asked for"
    student.options.cache_teacher = True
    with in_fp32():
        student.before_training(data, {"objective.teacher": "a"}, 0)
    student.learn_from(teacher_of(collator, seed=2), student.options)  # which is not asked again
    assert_close(student(batch)["loss"], expected, rtol=1e-5, atol=1e-5)
    assert "teacher_outputs" not in student.state_dict()
    student.teacher_outputs = None
    if layout == "packed":
        student.teacher.pack_rows()
    assert float((student(batch)["loss"] - expected).detach().abs()) > 1e-5, "the other says other things"


def test_a_stream_has_no_numbers_to_keep_outputs_by() -> None:
    with pytest.raises(ValueError, match=r"objective.cache_teacher .* reads its data as a stream"):
        outputs_of(GivenData(layout="padded"), "a", Asked())
