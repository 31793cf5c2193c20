"""A recipe in another size: `scale=toy` changes settings and no options, and a user's own recipes may have scales."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.recipes.papers import PAPERS
from tests.support.in_process import refused, tiryns_here
from tests.support.json_keys import document
from tiryns import compose

GROUPS = ("data", "objective", "sampler", "model", "module", "optimizer", "scheduler")
SAME = ("objective", "scheduler")
"""Groups that are the same in every size."""

OF_SIZE = ("lr", "overrides", "fused")
"""Settings of optimizers that a size may change."""


def plain(*words: str) -> dict[str, Any]:
    found: Any = OmegaConf.to_container(compose(*words), resolve=False)
    return found


@pytest.mark.slow
def test_nothing_changes_without_a_scale() -> None:
    assert "scale" not in plain()
    assert plain("~scale", "experiment=diffusion") == plain("experiment=diffusion")


@pytest.mark.rows(3)
@pytest.mark.parametrize("recipe", PAPERS)
def test_toy_exercises_every_part_of_its_recipe(recipe: str) -> None:
    full, toy = plain(f"experiment={recipe}"), plain(f"experiment={recipe}", "scale=toy")
    for group in GROUPS:
        assert toy[group]["_target_"] == full[group]["_target_"]
        assert set(full[group]) == set(toy[group])
    for group in SAME:
        assert toy[group] == full[group]
    own = {name: value for name, value in full["optimizer"].items() if name not in OF_SIZE}
    assert {name: value for name, value in toy["optimizer"].items() if name not in OF_SIZE} == own
    assert toy["module"]["max_grad_norm"] == full["module"]["max_grad_norm"]
    assert (toy["module"]["ema"] is None) == (full["module"]["ema"] is None)
    assert len(toy["phases"]) == len(full["phases"])
    for small, large in zip(toy["phases"], full["phases"], strict=True):
        assert small.get("objective") == large.get("objective")
        assert small.get("model") == large.get("model")
        assert set(large.get("scheduler", {})) == set(small.get("scheduler", {}))
        assert set(large.get("sampler", {})) <= set(small.get("sampler", {}))
        assert set(large.get("data", {})) <= set(small.get("data", {}))
    assert toy["model"]["num_hidden_layers"] < full["model"]["num_hidden_layers"]
    assert re.search(r"runner\.data\.(demo|sequences)\.", json.dumps(toy["data"])), "nothing to download"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scale=toy"], "scale=toy makes a recipe another size: name one, such as experiment=modernbert"),
        (
            ["scale=toy", "experiment=classification"],
            "scale=toy: experiment=classification has no such size; `tiryns info scale` lists",
        ),
        (
            ["scale=toi", "experiment=modernbert"],
            "there is no scale=toi; `tiryns info scale` lists what there is",
        ),
    ],
)
def test_scale_that_is_not_there_is_one_message(words: list[str], message: str, tmp_path: Path) -> None:
    assert message in refused(tmp_path, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_recipes_of_a_user_have_scales_of_theirs(tmp_path: Path) -> None:
    for name, text in {
        "experiment/mine.yaml": "# @package _global_\ndefaults: [override /model: bert_mini]\ntrainer: {max_steps: 70}\n",
        "experiment/toy/mine.yaml": "# @package _global_\ntrainer: {max_steps: 7}\n",
        "experiment/half/mine.yaml": "# @package _global_\nmodel: {hidden_size: 128}\n",
        "scale/half.yaml": "# @package _global_\n# Half as wide.\nseed: 5\n",
    }.items():
        (tmp_path / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / name).write_text(text)

    def mine(*words: str) -> dict[str, Any]:
        found: Any = OmegaConf.to_container(compose("experiment=mine", *words, config_dir=tmp_path / "own"))
        return found

    assert mine()["trainer"]["max_steps"] == 70
    assert mine("scale=toy")["trainer"]["max_steps"] == 7
    half = mine("scale=half", "model.num_attention_heads=2")
    assert (half["seed"], half["model"]["hidden_size"], half["model"]["num_hidden_layers"]) == (5, 128, 4)
    told = tiryns_here(tmp_path, "info", "scale", "--config-dir", "own", "--json").stdout
    scales = document("info scale", told)["scales"]
    assert scales["half"] == ["Half as wide.", "Recipes: mine"]
    assert scales["toy"][-1].split(": ")[1].split(", ") == sorted([*PAPERS, "nanovlm", "mine"])


@pytest.mark.slow
def test_info_tells_the_header_of_the_size(tmp_path: Path) -> None:
    text = tiryns_here(tmp_path, "info", "experiment=modernbert", "scale=toy").stdout
    assert text.startswith("experiment=modernbert scale=toy\n  ModernBERT in small")
    assert tiryns_here(tmp_path, "info", "experiment=modernbert").stdout.startswith(
        "experiment=modernbert\n  ModernBERT-base"
    )
