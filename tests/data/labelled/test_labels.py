"""What kind of problem labels make, and which of them cannot be."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.labelled.tasks import prepared_data
from tiryns.runner.data.labelled.labels import MULTI, REGRESSION, SINGLE, UNLABELLED, Labels
from tiryns.runner.data.labelled.spelling import LocatedLabel


def learnt(
    *labels: Any,
    names: Any = None,
    problem: str = "auto",
    separator: str | None = None,
    textual: bool = False,
) -> Labels:
    made = Labels(names, problem, separator)
    made.learn([LocatedLabel(made.as_read(x), f"row {i}") for i, x in enumerate(labels)], textual, None)
    return made


def target(labels: Labels, label: Any) -> Any:
    return labels.target(LocatedLabel(labels.as_read(label), "valid.csv, line 3"))


def test_text_makes_classes_sorted_by_name() -> None:
    made = learnt("fish", "bird", "fish", "Worm")
    assert (made.problem_type, made.names) == (SINGLE, ["Worm", "bird", "fish"])
    assert [target(made, name) for name in made.names] == [0, 1, 2]
    assert target(made, None) == UNLABELLED


def test_lists_are_several_labels() -> None:
    made = learnt(["b", "a"], [], ["c"])
    assert (made.problem_type, made.names) == (MULTI, ["a", "b", "c"])
    np.testing.assert_array_equal(target(made, ["c", "a"]), [1, 0, 1])
    np.testing.assert_array_equal(target(made, []), [0, 0, 0])
    assert np.isnan(target(made, None)).all()


def test_arrays_are_lists_of_labels() -> None:
    labels = [["a"], ["a", "b"], []] * 4
    rows = [{"text": f"river {n}", "label": np.array(one, dtype=str)} for n, one in enumerate(labels)]
    found = prepared_data("classification", train=rows).train
    assert found.names == ["a", "b"]
    assert found.labels[:3].tolist() == [[1, 0], [1, 1], [0, 0]]


def test_text_files_spell_numbers() -> None:
    assert learnt("0", "2", "1", textual=True).names == ["0", "1", "2"]
    assert target(learnt("0", "10", "9", textual=True), "10") == 2
    assert learnt("0.5", "2", textual=True).problem_type == REGRESSION
    assert learnt("1", "b", textual=True).names == ["1", "b"]
    assert learnt("0", "2", textual=False).names == ["0", "2"]
    assert learnt("0.5", "2", textual=True, problem="single_label").names == ["0.5", "2"]
    assert learnt("1", "2", textual=True, problem="regression").problem_type == REGRESSION


def test_separator_cuts_text_into_labels() -> None:
    made = learnt("a|b", "", "c", separator="|", textual=True)
    assert (made.problem_type, made.names) == (MULTI, ["a", "b", "c"])
    np.testing.assert_array_equal(target(made, "c | a"), [1, 0, 1])


def test_given_names_fix_the_order_and_name_integers() -> None:
    assert target(learnt("no", "yes", names=["yes", "no"]), "no") == 1
    numbered = learnt("0", "1", names=["no", "yes"], textual=True)
    assert (numbered.names, target(numbered, "1")) == (["no", "yes"], 1)


@given(st.lists(st.text(min_size=1), min_size=2).filter(lambda names: len(set(names)) > 1))
def test_every_training_label_has_a_number_of_its_own(names: list[str]) -> None:
    made = learnt(*names)
    numbers = {name: target(made, name) for name in names}
    assert sorted(set(numbers.values())) == list(range(len(set(names))))
    assert all(made.names[number] == name for name, number in numbers.items())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["a", 1], r"mixed types: integer in row 1 \(1\); text in row 0 \('a'\)"),
        (["a", ["b"]], "mixed types: list in row 1"),
        ([["a"], [1]], "mixed types: integer in row 1"),
        ([{"a": 1}], r"cannot be of this type: dict in row 0"),
        ([[0.5], [1.0]], "labels cannot be of this type: number"),
        (["same", "same"], "one label only, same: nothing to tell apart"),
        ([[], []], "every list of labels is empty"),
    ],
)
def test_labels_that_cannot_be_learnt(labels: list[Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        learnt(*labels)


@pytest.mark.parametrize(
    ("train", "label", "expected"),
    [
        (
            ["bird", "fish"],
            "fisch",
            r"csv, line 3: the label 'fisch' does not occur .* bird, fish. Did you mean 'fish'",
        ),
        ([0, 1], 2, "the label 2 does not occur in the training data"),
        ([0, 1], "01", "the label '01' does not occur"),
        ([["a"], ["b"]], ["a", "z"], "the label 'z' does not occur"),
        ([["a"], ["b"]], "a", "expected a list of labels"),
        ([0.5, 1.5], "much", "expected a finite number"),
        ([0.5, 1.5], float("nan"), "expected a finite number"),
    ],
)
def test_label_that_training_does_not_have(train: list[Any], label: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        target(learnt(*train), label)


def test_unknown_kind_of_problem() -> None:
    with pytest.raises(ValueError, match=r"data.problem_type='ranking'; there are: auto, single_label"):
        Labels(None, "ranking", None)
