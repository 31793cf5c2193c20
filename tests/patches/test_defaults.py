"""What composing needs for entries of defaults with an interpolation alone."""

from typing import Any

import pytest
from hydra._internal import defaults_list
from omegaconf import DictConfig, OmegaConf

from tiryns.runner.cli.compose import compose, initialize
from tiryns.runner.patches.hydra.composition import quicken_defaults


def test_hydra_collects_chosen_options_for_each_list_and_needs_them_for_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collected: list[int] = []
    now = defaults_list._create_interpolation_map
    collect = getattr(now, "of_interpolations", now)

    def counted(*arguments: Any) -> DictConfig:
        collected.append(1)
        return collect(*arguments)

    def composed() -> list[Any]:
        collected.clear()
        choices: tuple[list[str], ...] = ["optimizer=lion"], ["experiment=mosaicbert", "scale=toy"]
        return [OmegaConf.to_container(compose(words)) for words in choices]

    with initialize():
        monkeypatch.setattr(defaults_list, "_create_interpolation_map", counted)
        slow, in_slow = composed(), len(collected)
        quicken_defaults()
        assert composed() == slow
    assert in_slow > 40 > 4 > len(collected) > 0, "quicken_defaults"
