"""The step itself, without a run around it: what it sums, when ranks synchronise, and the seed of its random choices."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.plugins import MixedPrecision
from lightning.pytorch.strategies import SingleDeviceStrategy

from tests.conftest import TINY
from tests.support.composed import composed
from tiryns.runner.loop.assembly import assemble
from tiryns.runner.loop.trainer import quiet_libraries
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
from tiryns.runner.modules.base import check_same_model, seed_generators, step_seed
from tiryns.runner.modules.training import FIXED_MODELS, TrainingModule
from tiryns.runner.run.errors import Diverged


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
    parts = assemble(composed(words))
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


class Trained(NamedTuple):
    """What each step has returned, and how far all of the weights together have moved."""

    steps: list[dict[str, Any]]
    moved: float


def trained(
    text_file: Path, scale: float | None, *, fused: bool = False, limit: float = 1.0, log_every: int = 9
) -> Trained:
    """Two steps of plain SGD at a rate of 0.5: in fp16 with a loss that is scaled so much, else in fp32."""
    words = [*TINY, f"data.source={text_file}", "scheduler=constant", f"module.max_grad_norm={limit}"]
    words += [f"trainer.log_every={log_every}"]
    parts = assemble(composed(words))
    module = parts.module
    module._make_optimizer = lambda model: torch.optim.SGD(model.parameters(), lr=0.5, fused=fused)
    steps: list[dict[str, Any]] = []

    class Noted(Callback):
        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
            steps.append(outputs)

    quiet_libraries()
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    trainer = Trainer(
        accelerator="cpu", max_steps=2, logger=False, enable_checkpointing=False, limit_val_batches=0,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[Noted()],
        plugins=[MixedPrecision("16-mixed", "cpu", scaler)] if scaler else None,
    )  # fmt: skip
    before = [p.detach().clone() for p in module.parameters()]
    shares = parts.data.train_batches(0, 2)
    trainer.fit(module, torch.utils.data.DataLoader(shares, batch_size=None))
    moves = [(new.detach() - old).norm() for old, new in zip(before, module.parameters(), strict=True)]
    return Trained(steps, float(torch.stack(moves).norm()))


@pytest.mark.rows(1)
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.filterwarnings("ignore:You defined a `validation_step`")
def test_gradients_of_fp16_are_clipped_by_their_own_norm(text_file: Path, fused: bool) -> None:
    plain = trained(text_file, None, limit=0.01)
    scaled = trained(text_file, 1024.0, fused=fused, limit=0.01)
    norms = [[float(step["grad_norm"]) for step in run.steps] for run in (plain, scaled)]
    assert norms[1] == pytest.approx(norms[0], rel=0.02)
    assert scaled.moved == pytest.approx(plain.moved, rel=0.02)
    assert 0.5 * 0.01 < plain.moved <= 0.5 * 0.02


@pytest.mark.filterwarnings("ignore:You defined a `validation_step`", "ignore:Detected call of `lr_scheduler")
def test_a_loss_that_is_scaled_too_much_leaves_steps_out_and_ends_no_run(text_file: Path) -> None:
    run = trained(text_file, 2.0**40)
    assert not any(math.isfinite(step["grad_norm"]) for step in run.steps)
    assert run.moved == 0


@pytest.mark.filterwarnings("ignore:You defined a `validation_step`")
def test_gradients_that_no_scale_helps_end_the_run(text_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        SparseMaskedLM, "forward", lambda self, batch: {"loss": next(self.parameters()).sum() * math.inf}
    )
    with pytest.raises(Diverged, match="not a number at step 1"):
        trained(text_file, 1.0, log_every=1)


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


def test_another_frozen_model_is_refused() -> None:
    data = SimpleNamespace(accept_changes=False)
    module: Any = SimpleNamespace(_digests={"teacher": "a"}, state_dict=dict, datamodule=data)
    for digest, error, message in (
        ("b", ValueError, "^teacher: its weights"),
        ("a", KeyError, "optimizer_states"),
    ):
        with pytest.raises(error, match=message):
            TrainingModule.on_load_checkpoint(module, {"state_dict": {}, FIXED_MODELS: {"teacher": digest}})


def test_first_difference_to_a_checkpoint_is_named() -> None:
    ours = {"a": torch.ones(2), "b": torch.ones(3)}
    check_same_model(ours, dict(ours))
    for saved, message in (
        ({"a": torch.ones(2)}, "'b' has shape None there"),
        ({**ours, "b": torch.ones(4)}, r"'b' has shape \(4,\) there, \(3,\) here"),
        ({**ours, "c": torch.ones(1)}, r"'c' has shape \(1,\) there, None here"),
    ):
        with pytest.raises(ValueError, match=f"the checkpoint is of another model: {message}"):
            check_same_model(ours, saved)
