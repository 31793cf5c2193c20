"""Settings of constructors that take an option as one object, and of recipes that others on the command line meet."""

import inspect
from dataclasses import dataclass

import pytest

from tiryns.runner.cli.compose import compose, initialize
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.config.checks import remarks_on


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


@pytest.mark.rows(3)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["experiment=classification", "optimizer=muon"], "optimizer=muon has 0.02 by default"),
        (["experiment=classification", "optimizer=lion"], "0.001 comes from the recipe classification"),
        (["experiment=classification", "optimizer=muon", "optimizer.lr=0.01"], None),
        (["experiment=classification"], None),
        (["experiment=enhanced_mlm", "optimizer=muon"], None),
        (["optimizer=muon"], None),
        (["trainer.max_epochs=3"], "trainer.max_epochs=3 does not count beside trainer.max_steps=1500"),
        (["experiment=classification", "trainer.max_epochs=3"], None),
        (["trainer.max_epochs=3", "trainer.max_steps=9"], None),
    ],
)
def test_rate_of_a_recipe_and_epochs_that_do_not_count_are_told(words: list[str], said: str) -> None:
    with initialize():
        config = compose(words)
    told = [*remarks_on(config, config.hydra)]
    assert [said in line for line in told] == [True] * bool(said)
