"""The step itself, without a run around it: what it sums, when ranks synchronise, and the seed of its random choices."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_module
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import SingleDeviceStrategy

from iolaus.runner.loop.assembly import assemble
from iolaus.runner.loop.trainer import quiet_libraries
from iolaus.runner.modules.training import check_same_model, seed_generators, step_seed
from tests.conftest import TINY


class Blocking(SingleDeviceStrategy):
    """Notes, as DDP would see it, in which backward passes the ranks do not synchronise."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.blocked, self.passes = False, list[bool]()

    @contextlib.contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        self.blocked = True
        yield
        self.blocked = False

    def post_backward(self, *_: Any) -> None:
        self.passes.append(self.blocked)


@pytest.mark.filterwarnings("ignore:You defined a `validation_step`")
def test_ranks_synchronise_in_the_last_micro_batch_alone(text_file: Path) -> None:
    words = [*TINY, f"data.source={text_file}", "data.micro_batch_size=5", "trainer.log_every=9"]
    with initialize_config_module("iolaus.conf", version_base="1.3"):
        parts = assemble(compose("config", words))
    share = parts.data.train_batches(0, 1)[0]
    quiet_libraries()
    strategy = Blocking()
    trainer = Trainer(
        max_steps=1, strategy=strategy, logger=False, enable_checkpointing=False, limit_val_batches=0,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(parts.module, torch.utils.data.DataLoader([share], batch_size=None))  # type: ignore[arg-type]
    count = len(share["micro_batches"])
    assert count > 2
    assert strategy.passes == [True] * (count - 1) + [False]


def test_seeds_of_steps_and_ranks_never_alias() -> None:
    seeds = {step_seed(seed, step, rank) for seed in range(-2, 8) for step in range(50) for rank in range(8)}
    assert len(seeds) == 10 * 50 * 8
    assert 2**62 < max(seeds) < 2**63
    assert min(seeds) >= 0


def test_step_seeds_every_generator_there_is() -> None:
    drawn = []
    for _ in range(2):
        seed_generators(7, torch.device("cpu"))
        drawn.append(torch.rand(3).tolist())
    seed_generators(8, torch.device("cpu"))
    assert drawn[0] == drawn[1] != torch.rand(3).tolist()
    seed_generators(7, torch.device("meta"))
    assert torch.rand(3).tolist() == drawn[0]


def test_first_difference_to_a_checkpoint_is_named() -> None:
    ours = {"a": torch.ones(2), "b": torch.ones(3)}
    check_same_model(ours, dict(ours))
    for saved, message in (
        ({"a": torch.ones(2)}, "it has no 'b'"),
        ({**ours, "b": torch.ones(4)}, r"'b' has shape \(4,\) there, \(3,\) here"),
        ({**ours, "c": torch.ones(1)}, "it has 'c', which this one lacks"),
    ):
        with pytest.raises(ValueError, match=f"the checkpoint is of another model: {message}"):
            check_same_model(ours, saved)
