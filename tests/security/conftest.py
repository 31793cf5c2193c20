"""What is said of a stranger's recipe."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.tiny import tiny
from tiryns.runner.cli.compose import compose, initialize
from tiryns.runner.config.checks import check_config
from tiryns.runner.config.permissions import on_command_line

Problem = Callable[..., str]

COUNTS = "it counts on the command line, not in a recipe"


@pytest.fixture
def problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Problem:
    """What is said of a recipe, and of words that are typed with it; empty where nothing is wrong."""
    (tmp_path / "recipes" / "experiment").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "work")

    def check(recipe: str, *typed: str) -> str:
        if recipe.startswith("@"):  # an option of a group, which the recipe chooses
            group, _, node = recipe[1:].partition(" ")
            (tmp_path / "recipes" / group).mkdir(exist_ok=True)
            (tmp_path / "recipes" / group / "theirs.yaml").write_text(node)
            recipe = f"defaults:\n  - override /{group}: theirs"
        (tmp_path / "recipes" / "experiment" / "theirs.yaml").write_text(f"# @package _global_\n{recipe}\n")
        words = ["data=files", "data.source=x.txt", "experiment=theirs", *typed]
        monkeypatch.setattr(sys, "argv", ["tiryns", *words])
        try:
            with initialize([tmp_path / "recipes"]), on_command_line(words):
                check_config(compose(words))
        except Exception as error:
            return str(error)
        return ""

    return check


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("model")
    tiny().save_pretrained(folder)
    return folder
