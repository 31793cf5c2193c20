"""The house has a budget, not only its rooms: what grows is paid for by what shrinks."""

import copy

import pytest

from tests.house.budget import Measures, budget, excesses, lines_of, measured, written


@pytest.fixture(scope="module")
def now() -> Measures:
    return measured()


@pytest.mark.slow
def test_nothing_is_above_its_budget(now: Measures) -> None:
    assert excesses(budget(), now) == []


def test_folders_add_up_to_no_more_than_the_whole() -> None:
    allowed = budget()
    for whole, parts in (("product", "lines of the product"), ("tests", "lines of the tests")):
        assert sum(allowed[parts].values()) <= allowed["lines"][whole]


@pytest.mark.slow
def test_what_has_grown_is_named_with_by_how_much(now: Measures) -> None:
    allowed = copy.deepcopy(now)
    allowed["lines of the product"]["runner/order"] -= 7
    allowed["before the first step"]["files"] -= 1
    del allowed["lines of the product"]["runner/data"]
    first, *others = excesses(allowed, now)
    assert first.startswith("before the first step: files has ")
    assert first.endswith(", 1 above its budget")
    assert {line.rpartition(", ")[2] for line in others} == {
        "7 above its budget",
        f"{now['lines of the product']['runner/data']:,} above its budget",
    }


@pytest.mark.slow
def test_trace_enters_the_way_of_a_run_and_not_the_tests(now: Measures) -> None:
    assert 20 < now["before the first step"]["files"] < now["before the first step"]["functions"]
    assert lines_of("tiryns")["tiryns"] == now["lines of the product"]["tiryns"]


def test_file_is_as_it_would_be_written() -> None:
    from tests.house.budget import FILE

    assert FILE.read_text() == written(budget())
