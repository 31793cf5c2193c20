"""The house has a budget, not only its rooms: what grows is paid for by what shrinks."""

import pytest

from tests.house.budget import FILE, budget, excesses, is_vague, measured, written


@pytest.mark.slow
def test_nothing_is_above_its_budget() -> None:
    assert excesses(budget(), measured()) == []


def test_folders_add_up_to_no_more_than_the_whole() -> None:
    allowed = budget()
    for whole, parts in (("product", "lines of the product"), ("tests", "lines of the tests")):
        assert sum(allowed[parts].values()) <= allowed["lines"][whole]


def test_what_has_grown_is_named_with_by_how_much() -> None:
    found = {"lines": {"conf": 1_008, "runner": 5, "new": 3}}
    assert excesses({"lines": {"conf": 1_001, "runner": 5}}, found) == [
        "lines: conf has 1,008, 7 above its budget",
        "lines: new has 3, 3 above its budget",
    ]


def test_file_is_as_it_would_be_written() -> None:
    assert FILE.read_text() == written(budget())


def test_participles_and_pronouns_are_vague_names() -> None:
    names = ("settled", "_found_by", "theirs", "seed_of", "padded_rows", "load_run", "is_known", "founder")
    assert [name for name in names if is_vague(name)] == ["settled", "_found_by", "theirs"]
