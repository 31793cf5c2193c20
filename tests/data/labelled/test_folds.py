"""Folds of cross-validation: disjoint, whole, even and balanced, and held out of everything that a run learns from."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.labelled.tasks import data_module, questions, sentences, texts
from tiryns.runner.data.text.holdout import fold_numbers

LABELS = st.lists(st.sampled_from("aaaabbc"), min_size=7, max_size=60)


def counts_of(folds: Any, strata: list[str]) -> dict[str, list[int]]:
    """How many examples of each stratum each fold has, ascending; under an empty name those of all."""
    numbers = sorted(set(folds.tolist()))
    both = Counter(zip(folds.tolist(), strata, strict=True))
    found = {name: sorted(both[number, name] for number in numbers) for name in sorted(set(strata))}
    return {**found, "": sorted(Counter(folds.tolist()).values())}


@given(LABELS, st.integers(2, 7), st.integers(0, 9))
@settings(max_examples=60)
def test_folds_are_even_and_have_equal_shares_of_each_label(strata: list[str], folds: int, seed: int) -> None:
    found = fold_numbers([f"text {i}" for i in range(len(strata))], strata, folds, seed)
    assert set(found.tolist()) == set(range(1, folds + 1))
    for counts in counts_of(found, strata).values():
        assert counts[-1] - counts[0] <= 1


def test_folds_depend_on_the_examples_and_the_seed_alone() -> None:
    names, strata = [f"text {i}" for i in range(40)], ["a", "b"] * 20
    found = dict(zip(names, fold_numbers(names, strata, 4, 0).tolist(), strict=True))
    again = fold_numbers(names[::-1], strata[::-1], 4, 0).tolist()
    assert dict(zip(names[::-1], again, strict=True)) == found
    assert fold_numbers(names, strata, 4, 1).tolist() != list(found.values())
    assert list(found.values())[:8] == [4, 2, 4, 3, 3, 4, 2, 3], "folds of a version are those of the next"


def test_groups_are_not_torn_apart() -> None:
    groups = [f"patient {i % 9}" for i in range(60)]
    strata = [f"{i % 9 % 2}" for i in range(60)]
    found = fold_numbers(groups, strata, 3, 0)
    of_group = {(group, fold) for group, fold in zip(groups, found.tolist(), strict=True)}
    assert len(of_group) == 9
    assert max(counts_of(found, strata)[""]) - min(counts_of(found, strata)[""]) <= 7  # the size of a group


def test_largest_groups_are_dealt_out_first() -> None:
    groups = ["large"] * 10 + [f"{i}" for i in range(10)]
    found = fold_numbers(groups, [""] * 20, 2, 0)
    assert Counter(found.tolist()) == {1: 10, 2: 10}


def test_more_folds_than_texts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"data\.folds=4: there are only 3 distinct texts or groups"):
        fold_numbers(["a", "b", "c", "a"], [""] * 4, 4, 0)


def folds_of(option: str, rows: Any, folds: int, **fields: Any) -> list[Any]:
    """A prepared data module for each fold."""
    modules = [data_module(option, train=rows, folds=folds, fold=i, **fields) for i in range(1, folds + 1)]
    for module in modules:
        module.prepare_data()
    return modules


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("option", "rows"), [("classification", texts()), ("token_classification", sentences())]
)
def test_every_example_is_held_out_once_and_nothing_else_is_learnt_from(option: str, rows: Any) -> None:
    ids = []
    for data in folds_of(option, rows, 3, validation_documents=0.2):
        parts = {"train": data.train, "test": data.test["fold"], "validation": data.validation["validation"]}
        seen = {name: {e.id for e in part.examples} for name, part in parts.items()}
        sizes = [len(part.examples) for part in parts.values()]
        assert sum(sizes) == len(set.union(*seen.values())) == 60
        spoken = {name: set(data.reader.texts(part.examples)) for name, part in parts.items()}
        assert not spoken["test"] & (spoken["train"] | spoken["validation"])
        assert 0.15 < len(spoken["validation"]) / len(spoken["validation"] | spoken["train"]) < 0.25
        ids += [e.id for e in data.test["fold"].examples]
    assert sorted(ids, key=int) == [str(i) for i in range(60)]


def test_tokenizer_has_not_seen_the_held_out_fold() -> None:
    rows = [{**row, "text": f"{row['text']} number{i}"} for i, row in enumerate(texts(12))]
    for data in folds_of("classification", rows, 3, validation_documents=0, vocab_size=900):
        held = {int(e.id) for e in data.test["fold"].examples}
        whole = {i for i in range(12) if f"number{i}" in data.tokenizer.get_vocab()}
        assert whole == set(range(12)) - held


def test_folds_know_all_labels_and_leave_out_rows_of_others() -> None:
    rows = [*texts(20), {"text": "once and never again", "label": "rare"}]
    modules = folds_of("classification", rows, 3, validation_documents=0)
    assert len({tuple(data.collator_arguments()["labels"]) for data in modules}) == 1
    assert "rare" in modules[0].collator_arguments()["labels"]
    given: dict[str, Any] = {"labels": ["birds", "none", "stones"], "on_bad_row": "skip"}
    assert sum(len(data.test["fold"]) for data in folds_of("classification", rows, 3, **given)) == 20


@pytest.mark.slow
def test_questions_on_one_context_are_in_one_fold() -> None:
    rows = [
        {**row, "id": f"{row['id']}-{i}", "question": f"what {i}"} for row in questions(12) for i in range(3)
    ]
    modules = folds_of("question_answering", rows, 3, doc_stride=8, validation_documents=0.25)
    for data in modules:
        contexts = [
            {e.context for e in part.examples}
            for part in (data.train, data.test["fold"], data.validation["validation"])
        ]
        assert sum(map(len, contexts)) == len(set.union(*contexts)) == 12
    assert sorted(e.id for data in modules for e in data.test["fold"].examples) == sorted(
        row["id"] for row in rows
    )


def test_rows_of_a_group_column_are_held_out_together() -> None:
    rows = [{**row, "patient": i % 12} for i, row in enumerate(texts(60))]
    for data in folds_of("classification", rows, 3, group_column="patient", validation_documents=0.25):
        parts = (data.train, data.test["fold"], data.validation["validation"])
        patients = [{int(e.id) % 12 for e in part.examples} for part in parts]
        assert sorted(map(len, patients)) == [2, 4, 6]
        assert len(set.union(*patients)) == 12
    wrong = data_module("classification", train=rows, group_column="person")
    with pytest.raises(ValueError, match=r"data\.group_column"):
        wrong.prepare_data()


def test_sets_that_are_given_stay_beside_the_fold() -> None:
    given = {"validation": texts(6, seed=1), "test": texts(9, seed=2)}
    (data, _) = folds_of("classification", texts(20), 2, **given)
    assert {name: len(part.examples) for name, part in data.test.items()} == {"test": 9, "fold": 10}
    assert len(data.validation["validation"].examples) == 6
    taken = data_module("classification", train=texts(20), test={"fold": texts(4)}, folds=2, fold=1)
    with pytest.raises(ValueError, match=r"data\.test names a set 'fold'"):
        taken.prepare_data()


@pytest.mark.parametrize(("folds", "fold"), [(3, None), (None, 1), (3, 4), (3, 0)])
def test_fold_is_one_of_the_folds(folds: int | None, fold: int | None) -> None:
    with pytest.raises(ValueError, match=rf"data\.folds={folds} and data\.fold={fold}: give both"):
        data_module("classification", train=texts(9), folds=folds, fold=fold)
