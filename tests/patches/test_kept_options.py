"""Options that are read once: configs are those that Hydra composes, and what may change is read anew."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import hydra
import pytest
from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import DictConfig, OmegaConf

from tests.support.processes import kept_options as kept
from tests.support.processes.kept_options import kept_options
from tiryns.runner.cli.compose import prepare
from tiryns.runner.patches.hydra.start import VERSION_BASE


@pytest.fixture(autouse=True)
def _hydra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hydra on the packaged configs, with nothing kept yet."""
    monkeypatch.setattr(kept, "_kept", {})
    prepare()
    with hydra.initialize_config_module("tiryns.conf", "tiryns", **VERSION_BASE):
        yield


def composed(*words: str) -> DictConfig:
    return hydra.compose("config", overrides=list(words), return_hydra_config=True)


def shown(config: DictConfig) -> tuple[str, Any, Any]:
    return OmegaConf.to_yaml(config), OmegaConf.is_struct(config), OmegaConf.is_readonly(config.hydra)


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "words",
    [
        [],
        ["seed=3", "resume=auto", "optimizer.lr=0.5", "+optimizer.more={a: 1}", "++data.source=x"],
        ["optimizer.lr=0.5", "optimizer=lion", "~callback.progress", "callback.manifest.every=3"],
        [
            "experiment=classification",
            "hydra.run.dir=elsewhere",
            "data={vocab_size: 7}",
            "trainer.max_steps=4",
        ],
        ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "model=bert_tiny", "model.hidden_size=32"],
    ],
)
def test_config_is_the_one_that_hydra_composes(words: list[str]) -> None:
    expected = shown(composed(*words))
    with kept_options():
        for number in range(3):
            found = composed(*words)
            assert shown(found) == expected
            found.optimizer.lr = found.seed = number  # what is kept does not change
            assert composed(*words, "optimizer.lr=7").optimizer.lr == 7


def test_options_are_put_together_twice_and_copied_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Mock(wraps=config_loader_impl.create_defaults_list)
    together = Mock(wraps=ConfigLoaderImpl._load_single_config)
    monkeypatch.setattr(config_loader_impl, "create_defaults_list", listed)
    monkeypatch.setattr(
        ConfigLoaderImpl, "_load_single_config", lambda self, **asked: together(self, **asked)
    )
    with kept_options():
        counts = []
        for rate in range(4):
            assert composed("optimizer=lion", f"optimizer.lr={rate}", f"seed={rate}").seed == rate
            counts.append((listed.call_count, together.call_count))
        assert composed("optimizer=adamw").optimizer != composed("optimizer=lion").optimizer
    options = counts[0][1]
    assert counts == [(1, options), (1, 2 * options), (1, 2 * options), (1, 2 * options)]
    assert listed.call_count == 2


@pytest.mark.slow
def test_errors_are_those_of_hydra() -> None:
    for words in (
        ["optimizer=none_such"],
        ["optimizer.none_such=1"],
        ["+optimizer=lion"],
        ["~optimizer=lion"],
    ):
        with pytest.raises(Exception, match=r"\S") as theirs:
            composed(*words)
        with kept_options():
            for _ in range(2):
                with pytest.raises(type(theirs.value)) as ours:
                    composed(*words)
                assert str(ours.value) == str(theirs.value)


def test_file_of_a_folder_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    with kept_options():
        for rate in (0.25, 0.5):
            recipe = f"# @package _global_\noptimizer: {{lr: {rate}}}\n"
            (tmp_path / "experiment" / "mine.yaml").write_text(recipe)
            words = f"hydra.searchpath=[file://{tmp_path}]", "experiment=mine"
            assert [composed(*words).optimizer.lr for _ in range(2)] == [rate] * 2
