"""A step that is computed twice: a run does not show it, and one wrong bit ends it with a line that says where."""

import contextlib
import re
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.conftest import TINY, run_program
from tests.launch.test_kill import only_run
from tests.runs.test_train import Run, rows
from tiryns.runner.manifest.steps import FILE_NAME as DIGESTS
from tiryns.runner.modules import replay as replays
from tiryns.runner.modules import training
from tiryns.runner.modules.replay import Difference, Replay
from tiryns.runner.run.errors import TrainingFailure
from tiryns.runner.run.folder import RunFolder

SHORT = [
    "model.dropout=0.1", "trainer.max_steps=4", "trainer.validate_every=0", "checkpoint.every_steps=2",
    "data.micro_batch_tokens=150", "callback.manifest.every=1",
]  # fmt: skip
REPLAYED = "module.replay_every=1"


def wrong(step: int, rank: int) -> list[str]:
    flips = f"{{_target_:tests.support.callbacks.FlippedBit,step:{step},rank:{rank}}}"
    return ["allowed_targets=[tests]", f"+callback.flips={flips}"]


def traces(run: RunFolder) -> tuple[str, list[dict[str, str]]]:
    """Digests of weights and optimizer state after each step, and all that is logged."""
    return (run.path / DIGESTS).read_text(), rows(run)


@pytest.mark.parametrize(
    "overrides",
    [
        ["data.layout=packed", "optimizer=sophiah", "optimizer.update_period=2"],
        ["data.layout=padded", "module.gradient_checkpointing=true"],
    ],
    ids=["packed", "padded"],
)
def test_a_run_does_not_show_that_its_steps_were_computed_twice(
    run_here: Run, overrides: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "data.layout=padded" in overrides:  # as on a GPU, where dropout is drawn
        monkeypatch.setattr(training, "dropout_keys", lambda *_: contextlib.nullcontext())
    plain, seen = run_here(*SHORT, *overrides, folder="plain"), []
    second = Replay.second

    def watched(self: Replay, compute: Callable[[], Tensor]) -> Tensor:
        seen.append(self._step)
        return second(self, compute)

    monkeypatch.setattr(Replay, "second", watched)
    replayed = run_here(*SHORT, *overrides, REPLAYED, folder="replayed")
    assert seen == [2, 3, 4], "all but a process's first"
    assert traces(replayed) == traces(plain)
    run_here(*SHORT, *overrides, "module.replay_every=3", folder="third")
    assert seen == [2, 3, 4, 3]


def test_one_wrong_bit_ends_the_run_and_is_named(run_here: Run, tmp_path: Path) -> None:
    words = [*SHORT, *wrong(step=3, rank=0)]
    with pytest.raises(TrainingFailure) as failure:
        run_here(*words, REPLAYED)
    message = str(failure.value)
    assert re.match(
        rf"step 3 was computed twice and its gradients differ on rank 0 \(host {socket.gethostname()}, cpu\): that of "
        r"pretrained\.\S*embeddings\.\S+ by up to \d\S+, 5 of \d+ parameters in all; hardware there computes wrongly",
        message,
    )
    assert message.endswith(f"resume={tmp_path}/run/checkpoints/step-00000002.ckpt")
    run_here(*words, folder="unseen")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_run_of_several_ranks_ends_and_names_the_one_that_was_wrong(
    tmp_path: Path, text_file: Path, strategy: str
) -> None:
    words = [*(word for word in TINY if word != "trainer=cpu"), f"data.source={text_file}", *SHORT]
    words += [f"trainer={strategy}", "trainer.accelerator=cpu", *wrong(step=4, rank=1), REPLAYED]
    ended = run_program(*words, cwd=tmp_path, check=False)
    run = only_run(tmp_path / "outputs")
    message = run.status()["error"]
    assert message in ended.stderr
    where, blamed = " on rank 1", "there"
    if strategy == "fsdp":  # where only sums are seen, on the rank that has them
        where, blamed = " once added up on rank 0", "of any rank, or the network,"
    assert re.search(
        rf"step 4 was computed twice and its gradients differ{where} \(host {socket.gethostname()}, cpu\): that of \S+ "
        rf"by up to (?!0,)\d\S+, 5 of \d+ parameters in all; hardware {blamed} computes wrongly",
        message,
    ), message
    assert message.endswith(f"resume={run.checkpoints}/step-00000002.ckpt")
    assert len((run.path / "order.txt").read_text().splitlines()) == 3


def replay_of(model: nn.Module, world_size: int = 1) -> Replay:
    trainer: Any = SimpleNamespace(
        world_size=world_size, global_rank=0, default_root_dir="nowhere",
        strategy=SimpleNamespace(root_device=torch.device("cpu")),
    )  # fmt: skip
    return Replay(model, trainer, 1)


@pytest.mark.parametrize("mine", [0.0, 0.5])
def test_every_rank_stops_and_names_the_one_whose_own_gradients_differ(
    monkeypatch: pytest.MonkeyPatch, mine: float
) -> None:
    other = Difference("rank 1 (host b, cuda:3)", "weight", 0.5, 1, own=True)
    monkeypatch.setattr(replays, "gathered", lambda own, _: [own, other])
    replay = replay_of(model := nn.Linear(2, 1), world_size=2)
    replay.first(lambda: summed(model, 0.0))
    with pytest.raises(TrainingFailure, match=r" differ on rank 1 \(host b, cuda:3\): that of weight by "):
        replay.second(lambda: summed(model, mine))


def summed(model: nn.Linear, wrong: float) -> None:
    """A backward pass with a fault where ranks would add up the gradients."""
    model(torch.ones(1, 2)).sum().backward()
    assert model.bias.grad is not None
    model.bias.grad += wrong


def test_buffers_are_those_of_one_pass() -> None:
    norm, rows = nn.BatchNorm1d(2), torch.arange(12.0).reshape(4, 3)
    model = nn.Sequential(nn.Linear(3, 2), norm)
    replay = replay_of(model)
    for compute in (replay.first, replay.second):
        compute(lambda: model(rows).square().sum().backward())
    expected = 0.1 * model[0](rows).mean(0)
    torch.testing.assert_close(norm.running_mean, expected)
    assert norm.num_batches_tracked == 1


@pytest.mark.parametrize("deterministic", [False, True])
def test_wrong_sum_of_right_gradients_is_laid_to_no_rank(
    deterministic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: deterministic)
    replay = replay_of(model := nn.Linear(2, 1), world_size=2)
    replay.first(lambda: summed(model, 0.0))
    line = r"bias by up to 0.5, 1 of 2 .*; hardware of any rank, or"
    with pytest.raises(TrainingFailure, match=line) as failure:
        replay.second(lambda: summed(model, 0.5))
    assert ("with trainer.deterministic=true it is the hardware" in str(failure.value)) != deterministic
