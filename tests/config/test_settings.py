"""Constructors that take the fields of an option as one object refuse the same mistakes as any other."""

import inspect
from dataclasses import dataclass

import pytest

from tiryns.runner.config.settings import takes_settings


@dataclass
class Window:
    size: int = 3
    unit: str = "steps"


class Shown:
    @takes_settings(Window)
    def __init__(self, settings: Window, name: str, end: str = ".") -> None:
        self.text = f"{name}: {settings.size} {settings.unit}{end}"


def test_fields_and_other_arguments_are_given_by_name() -> None:
    assert Shown(size=5, unit="tokens", name="window").text == "window: 5 tokens."
    assert list(inspect.signature(Shown).parameters) == ["size", "unit", "name", "end"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 5, "unit": "tokens", "nmae": "window"}, "Shown.__init__: .*'n(ame|mae)'"),
        ({"size": 5, "unti": "tokens", "name": "window"}, "Shown.__init__: .*'un(it|ti)'"),
        ({"size": 5, "name": "window"}, "Shown.__init__: missing a required .*'unit'"),
        ({"size": 5, "unit": "tokens", "name": "window", "more": 1}, "Shown.__init__: .*unexpected.*'more'"),
    ],
)
def test_a_misspelt_a_missing_and_an_unknown_argument_are_refused(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        Shown(**given)
