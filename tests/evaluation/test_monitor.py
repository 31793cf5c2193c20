"""What names the best checkpoint: filled in where nothing is named, and refused where nobody will log it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from omegaconf import DictConfig

from tests.conftest import TINY
from tests.support.composed import composed as tiny
from tests.support.run_data import GivenData
from tiryns.runner.evaluation.monitor import better_when, choose_monitor, direction_of
from tiryns.runner.loop.assembly import assemble


def composed(*overrides: str) -> DictConfig:
    with initialize_config_module("tiryns.conf", version_base="1.3"):
        return compose("config", [*overrides, "hydra/sweeper=grid"])


def settled(*overrides: str, names: tuple[str, ...] = ("accuracy", "loss")) -> DictConfig:
    """A config after its monitor was settled, by a module that knows these figures of two sets."""
    config = composed("callback=[default,early_stopping]", *overrides)
    module: Any = SimpleNamespace(figure_names=lambda sequences: list(names))
    choose_monitor(config, module, GivenData(validation={"first": [1], "second": [2]}))
    return config


@pytest.mark.parametrize(
    ("overrides", "monitor", "mode"),
    [
        ([], "val/first/accuracy", "max"),
        (["checkpoint.monitor=val/second/loss"], "val/second/loss", "min"),
        (["checkpoint.monitor=val/second/loss", "checkpoint.mode=max"], "val/second/loss", "max"),
        (["trainer.validate_every=0"], None, "min"),
    ],
)
def test_figure_and_mode_are_filled_in(overrides: list[str], monitor: str | None, mode: str) -> None:
    config = settled(*overrides)
    for node in (config.checkpoint, config.callback.early_stopping):
        assert (node.monitor, node.mode) == (monitor, mode)


def test_early_stopping_may_follow_another_figure() -> None:
    node = settled("callback.early_stopping.monitor=val/first/loss").callback.early_stopping
    assert (node.monitor, node.mode) == ("val/first/loss", "min")


@pytest.mark.parametrize("setting", ["checkpoint", "callback.early_stopping"])
def test_another_figure_is_refused(setting: str) -> None:
    message = rf"^{setting}.monitor=val/first/accurcy cannot .*mean 'val/first/acc"
    with pytest.raises(ValueError, match=message):
        settled(f"{setting}.monitor=val/first/accurcy")


def test_set_without_target_does_not_choose_beside_one_with_targets(text_file: Path, tmp_path: Path) -> None:
    texts = {"word": "a", "more": "the heron of the river rests beside the old bridge. " * 9}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
    for names, monitor in (("word", "val/word/loss"), ("word,more", "val/more/loss")):
        sets = ", ".join(f"{name}: {tmp_path}/{name}.txt" for name in names.split(","))
        config = tiny([*TINY, f"data.source={text_file}", f"data.validation={{{sets}}}"])
        assemble(config)
        assert config.checkpoint.monitor == monitor


def test_a_module_that_does_not_tell_its_figures_is_believed() -> None:
    config = settled("checkpoint.monitor=val/first/own", names=())
    assert (config.checkpoint.monitor, config.checkpoint.mode) == ("val/first/own", "max")
    assert settled(names=()).checkpoint.monitor is None, "the loss of the first set, as it is found"


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("overrides", "direction"),
    [
        ([], "min"),
        (["experiment=classification"], "max"),
        (["experiment=vlm_shapes"], "max"),
        (["experiment=classification", "checkpoint.monitor=val/validation/mse"], "min"),
        (["checkpoint.mode=max"], "max"),
    ],
)
def test_a_search_goes_the_way_of_the_figure(overrides: list[str], direction: str) -> None:
    assert direction_of(composed(*overrides)) == direction


def test_errors_and_costs_are_better_small() -> None:
    small, large = ("loss", "encoder_loss", "bits_per_byte", "mse"), ("accuracy", "spearman", "entity_f1")
    assert {better_when(name) for name in (*small, "time/cpu_seconds")} == {"min"}
    assert {better_when(f"val/x/{name}") for name in (*large, "tokens_per_second")} == {"max"}
