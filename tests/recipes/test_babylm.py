"""The recipe for 10 million words: files of one's own, ten passes, eight processes."""

from pathlib import Path

import pytest

import tiryns
from tests.recipes.rules import config_of


def test_recipe_passes_ten_times_over_the_files_that_are_named(text_file: Path) -> None:
    config = tiryns.compose(
        "experiment=babylm", f"data.source={text_file}", "data.vocab_size=300", "sampler.global_batch_size=16"
    )
    parts = tiryns.assemble(config)
    sequences = len(parts.data.train)
    batch = config.sampler.global_batch_size
    assert (parts.max_steps - 1) * batch < 10 * sequences <= parts.max_steps * batch
    assert parts.data.validation_names == ["held_out"]


def test_files_have_to_be_named() -> None:
    with pytest.raises(ValueError, match=r"data\.source"):
        tiryns.assemble(tiryns.compose("experiment=babylm"))


def test_recipe_begins_with_random_weights_on_eight_processes() -> None:
    config = config_of("experiment=babylm", "data.source=x")
    assert "name_or_path" not in config["model"]
    assert (config["trainer"]["accelerator"], config["trainer"]["devices"]) == ("cpu", 8)
    assert (config["trainer"]["max_steps"], config["trainer"]["max_epochs"]) == (-1, 10)
