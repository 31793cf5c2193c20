"""The configs of a sweep's jobs are those that Hydra composes, however they were come by."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

import tiryns.conf  # noqa: F401  registers the groups
from tiryns.runner.run.recording import config_hash
from tiryns.runner.sweeps.job_configs import JobConfigs

JOBS = [
    ["optimizer.lr=0.1", "seed=1"], ["optimizer.lr=0.2", "seed=2"], ["optimizer=sgd", "optimizer.lr=0.1"],
    ["optimizer=muon", "optimizer.lr=0.3"], ["+data.more={a: 1}", "seed=1"], ["+data.more={b: 1}", "seed=2"],
    ["trainer.validation_batches=null"], ["data.validation_documents=0.1", "seed=${trainer.log_every}"],
    ["seed=1", "seed=3"], ["seed=3", "seed=${trainer.log_every}"],
    ["data.validation_documents=3", "data.validation_documents={a: 1}"],
    ["+model.config.a=2", "model.config={a: 1}"], ["model.config={a: 1}", "++model.config.a=2"],
    ["phases=[{name: a, steps: 3}]", "~seed"], ["optimizer.lr=0.1", "optimizer=lion"],
    ["experiment=diffusion", "seed=3"], ["~logger", "seed=4"],
]  # fmt: skip


class Composed:
    """Hydra's loader, which counts what it composes."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.count = loader, 0

    def __getattr__(self, name: str) -> Any:
        if name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)

    def load_sweep_config(self, master: DictConfig, overrides: list[str]) -> DictConfig:
        self.count += 1
        return self.loader.load_sweep_config(master, overrides)


@pytest.fixture
def loader() -> Iterator[Composed]:
    with initialize_config_module("tiryns.conf", version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        yield Composed(hydra.config_loader)


@pytest.fixture
def master(loader: Composed) -> DictConfig:
    return loader.load_configuration("config", ["model=bert_tiny", "hydra.job.name=x"], RunMode.MULTIRUN)


def plain(config: DictConfig) -> Any:
    return OmegaConf.to_container(config, resolve=False)


@pytest.mark.parametrize("jobs", [JOBS[:4], pytest.param(JOBS[4:], marks=pytest.mark.slow)])
def test_copies_are_what_hydra_composes(jobs: list[list[str]], loader: Composed, master: DictConfig) -> None:
    configs = JobConfigs(loader)  # type: ignore[arg-type]
    for overrides in jobs:
        ours = configs.compose(copy.deepcopy(master), overrides)
        theirs = loader.loader.load_sweep_config(master, overrides)
        assert plain(ours) == plain(theirs), overrides
        assert config_hash(ours) == config_hash(theirs)


@pytest.mark.slow
def test_jobs_that_differ_in_values_are_composed_once(loader: Composed, master: DictConfig) -> None:
    configs = JobConfigs(loader)  # type: ignore[arg-type]
    hashes = {configs.check(master, [f"optimizer.lr={i}", "optimizer=sgd", f"seed={i}"]) for i in range(5)}
    assert (loader.count, len(hashes)) == (1, 5)


def test_wrong_values_raise_for_copies_too(loader: Composed, master: DictConfig) -> None:
    configs = JobConfigs(loader)  # type: ignore[arg-type]
    configs.check(master, ["seed=1"])
    with pytest.raises(ConfigCompositionException, match="seed=many"):
        configs.check(master, ["seed=many"])


@pytest.mark.slow
def test_launcher_gets_the_config_with_the_folder_of_the_job(loader: Composed, master: DictConfig) -> None:
    configs = JobConfigs(loader)  # type: ignore[arg-type]
    configs.check(master, ["seed=1"])
    launched = ["seed=1", "hydra.sweep.subdir=7"]
    expected = loader.loader.load_sweep_config(master, launched)
    assert plain(configs.load_sweep_config(master, launched)) == plain(expected)
    assert loader.count == 1, "not composed again"
    assert plain(pickle.loads(pickle.dumps(configs)).load_sweep_config(master, launched)) == plain(expected)
