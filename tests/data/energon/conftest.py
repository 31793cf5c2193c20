"""What the libraries hold is not looked through for garbage by each loader, which thaws it."""

import gc

import pytest


@pytest.fixture(autouse=True)
def libraries_stay_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "unfreeze", lambda: None)
