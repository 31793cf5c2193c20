"""Hold-out: no text is both trained on and validated with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.text.test_sources import source
from tiryns.runner.data.read.documents import Source
from tiryns.runner.data.text.holdout import (
    HELD_OUT,
    TRAIN,
    are_held_out_by_content,
    digest,
    divide,
    split_documents,
)

texts = st.lists(st.sampled_from([f"text {k}" for k in range(40)]), min_size=2, max_size=60)


@given(texts, st.integers(0, 3) | st.floats(0.01, 0.6), st.integers(0, 5), st.randoms(use_true_random=False))
def test_held_out_documents_are_never_trained_on(
    documents: list[str], validation: float, seed: int, draw: Any
) -> None:
    distinct = len(set(documents))
    digests = np.array([digest(text) for text in documents], np.uint64)
    count = validation if validation >= 1 or not validation else max(1, round(validation * distinct))
    if count >= distinct:
        with pytest.raises(ValueError, match="leave none to train on"):
            split_documents(digests, validation, seed)
        return
    held_out = split_documents(digests, validation, seed)
    assert len(held_out) == count
    chosen = {text for text in documents if np.uint64(digest(text)) in held_out}
    assert len(chosen) == count
    shuffled = documents.copy()
    draw.shuffle(shuffled)
    again = split_documents(np.array([digest(text) for text in shuffled], np.uint64), validation, seed)
    assert (again == held_out).all()


def test_another_seed_holds_out_others() -> None:
    digests = np.array([digest(f"text {k}") for k in range(1000)], np.uint64)
    chosen = [set(split_documents(digests, 0.1, seed).tolist()) for seed in range(3)]
    assert all(len(part) == 100 for part in chosen)
    assert all(len(chosen[a] & chosen[b]) < 40 for a, b in ((0, 1), (1, 2), (0, 2)))


@pytest.mark.parametrize("wrong", [-1, 2.5, "ten", None, float("nan"), True])
def test_a_wrong_number_to_hold_out_is_an_error(wrong: Any) -> None:
    message = r"data.validation_documents=.*: give a number of documents, or a share"
    with pytest.raises(ValueError, match=message):
        split_documents(np.arange(9, dtype=np.uint64), wrong, 0)


def texts_file(path: Path, documents: list[str]) -> Source:
    path.write_text("\n\n".join(documents))
    return source(path)


def test_a_repeated_document_validates_once_or_trains_as_often_as_it_stands(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repeated = texts_file(tmp_path / "a.txt", [f"text {k % 10}" for k in range(30)])
    caplog.set_level("INFO", logger="tiryns")
    parts = divide(repeated, {}, 3, seed=0)
    kept = {name: [str(text) for _, text in part.numbered_documents()] for name, part in parts.items()}
    assert list(kept) == [TRAIN, HELD_OUT]
    assert len(kept[HELD_OUT]) == len(set(kept[HELD_OUT])) == 3
    assert len(kept[TRAIN]) == 21
    assert not set(kept[TRAIN]) & set(kept[HELD_OUT])
    assert "30 documents (train 21, held_out 3, equal to held-out ones 6)" in caplog.text
    caplog.clear()
    divide(repeated, {}, 0, seed=0, exclusions=np.unique(parts[TRAIN].digests)[:2])
    assert "30 documents (train 24, left out 6)" in caplog.text


def test_what_is_in_a_validation_source_is_not_trained_on(tmp_path: Path) -> None:
    train = texts_file(tmp_path / "train.txt", [f"text {k}" for k in range(10)])
    validation = {
        "one": texts_file(tmp_path / "one.txt", ["text 3", "other", "other"]),
        "two": texts_file(tmp_path / "two.txt", ["text 7"]),
    }
    parts = divide(train, validation, 0.5, seed=0)
    kept = {name: [text for _, text in part.numbered_documents()] for name, part in parts.items()}
    assert kept["one"] == ["text 3", "other", "other"]
    assert kept["two"] == ["text 7"]
    assert kept[TRAIN] == [f"text {k}" for k in (0, 1, 2, 4, 5, 6, 8, 9)]
    with pytest.raises(ValueError, match="nothing to train on"):
        divide(train, {"same": train}, 0.5, seed=0)


def test_a_source_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    opened = texts_file(tmp_path / "a.txt", ["One.", "Two.", "Three."])
    part = divide(opened, {}, 0, seed=0)[TRAIN]
    (tmp_path / "a.txt").write_text("One.\n\nTwo.")
    with pytest.raises(ValueError, match="changed while it was read: 3 documents at first, then 2"):
        list(part.numbered_documents())


def test_blank_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.txt holds no documents"):
        divide(texts_file(tmp_path / "a.txt", [" ", "\n"]), {}, 0, seed=0)


def test_texts_are_held_out_by_their_own_content_and_the_seed() -> None:
    texts = [f"text {number}" for number in range(4000)]
    held = are_held_out_by_content(texts, 0.1, seed=0)
    assert 0.08 < held.mean() < 0.12
    for cut in (1, 7):
        parts = [are_held_out_by_content(texts[start::cut], 0.1, seed=0) for start in range(cut)]
        assert all((part == held[start::cut]).all() for start, part in enumerate(parts))
    assert (are_held_out_by_content(texts, 0.2, seed=0) >= held).all()
    assert (are_held_out_by_content(texts, 0.1, seed=1) != held).any()
    assert not are_held_out_by_content(texts, 0, seed=0).any()
    assert not len(are_held_out_by_content([], 0.1, seed=0))
