"""Public file forms are read as their tools mean them, or end in one line that names what to do."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.data.forms import annotated, retrieved, tables
from tests.data.forms.form import Form, read, shown

FORMS = [*tables.FORMS, *annotated.FORMS, *retrieved.FORMS]


@pytest.mark.rows(16)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_form_is_read_rightly_or_named(form: Form, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tiryns")
    if form.error:
        with pytest.raises((ValueError, FileNotFoundError)) as error:
            read(form, tmp_path)
        assert re.search(form.error, str(error.value))
        assert "\n" not in str(error.value)
        return
    data = read(form, tmp_path)
    train: Any = data.train
    found = shown(train.examples[0])
    assert len(train.examples) == form.rows
    assert {name: found[name] for name in form.first} == form.first
    assert form.labels is None or train.names == form.labels
    assert form.kind in (None, getattr(train, "scheme", None), getattr(train, "problem_type", None))
    assert re.search(form.said, f"{caplog.text}\n{data.facts()}")
    told = [one for one in caplog.records if one.levelname == "WARNING"]
    assert bool(told) <= bool(form.said)


def test_forms_are_told_apart() -> None:
    assert len({form.name for form in FORMS}) == len(FORMS)
    assert all(bool(form.error) != bool(form.rows) for form in FORMS)
