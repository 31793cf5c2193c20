"""Sequences of proteins that a package ships, as documents."""

import sys

import pytest

from tests.support import needs
from tiryns.runner.data.sequences.proteins import Proteins
from tiryns.runner.data.text.tokenizer import ALPHABETS


def test_there_are_a_thousand_sequences_of_proteins() -> None:
    needs.package("tidytcells")
    documents = list(Proteins().documents())
    assert len({*documents}) == len(documents) > 1000
    letters = "".join(documents)
    assert len(letters) > 90_000
    assert sum(letter not in ALPHABETS["protein"] for letter in letters) < 10, "stops alone are unknown"
    assert documents == list(Proteins().documents())
    assert Proteins().fingerprint()["version"] in Proteins().describe()


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tidytcells", None)
    message = r"data=proteins needs tidytcells: pip install 'tiryns\[sequences\]'$"
    with pytest.raises(ImportError, match=message):
        next(Proteins().documents())
