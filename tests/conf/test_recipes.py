"""The header of every recipe says how to run it, how long that takes and what comes out; test_docs.py composes it."""

import re
from pathlib import Path

CONF = Path(__file__).parents[2] / "conf"
PLACES = ("experiment", "published/experiment", "published/experiment/toy")
RECIPES = [recipe for place in PLACES for recipe in sorted((CONF / place).glob("*.yaml"))]


def words_of(recipe: Path) -> list[str]:
    """What chooses a recipe, in its size."""
    size = recipe.parent.name
    return [f"experiment={recipe.stem}", *([] if size == "experiment" else [f"scale={size}"])]


def name_of(recipe: Path) -> str:
    return " ".join(words_of(recipe))


def test_recipe_says_how_to_run_it_how_long_it_takes_and_what_it_reaches() -> None:
    for recipe in RECIPES:
        header = "".join(line for line in recipe.read_text().splitlines(True) if line.startswith("#"))
        assert f"tiryns {name_of(recipe)}" in header
        assert re.search(r"\b(minutes?|seconds?|hours?|days?)\b", header, re.IGNORECASE), recipe
        assert re.search(r"[Rr]eaches.*\d", header), recipe
