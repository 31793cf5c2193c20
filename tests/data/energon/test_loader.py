"""A stream of energon's is stopped and gone on with anywhere, and never spins or hangs."""

import gc
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from megatron.energon import WorkerConfig, get_loader, get_val_dataset
from torch.utils.data import DataLoader, TensorDataset

from tests.data.energon.sets import NumberedPacks, make_set, stream, take
from tests.optim.test_optimizers import through_a_file
from tests.support.processes import assert_workers_end_with_their_parent
from tiryns.runner.data.energon.loader import (
    EnergonDataloader,
    EnergonPass,
    from_plain,
    to_plain,
    worker_safe,
)
from tiryns.runner.data.energon.source import SkipBudget


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gc.freeze()  # else each worker looks for garbage in all that the tests before have left
    return make_set(tmp_path_factory.mktemp("energon") / "set")


def check_cuts(folder: Path, cuts: list[int], steps: int, **settings: Any) -> None:
    """The stream, cut after so many batches each time, is the undisturbed one."""
    undisturbed = stream(folder, **settings)
    expected = take(undisturbed, sum(cuts) + steps)
    undisturbed.close()
    found, state = [], None
    for length in [*cuts, steps]:
        part = stream(folder, **settings)
        if state is not None:
            part.restore_state(through_a_file(state))
        found += take(part, length)
        state = part.save_state()
        part.close()
    assert found == expected


@pytest.mark.rows(1)
@pytest.mark.parametrize("packing", [None, 12])
def test_stream_goes_on_exactly_without_workers(folder: Path, packing: int | None) -> None:
    draw = random.Random(1)
    for rank in range(2):
        cuts = [draw.randint(0, 9) for _ in range(4)]
        check_cuts(folder, [*cuts, 0, 1], 25, rank=rank, ranks=2, packing=packing)


def test_stream_resumed_twice_in_a_row_goes_on_exactly_with_workers(folder: Path) -> None:
    check_cuts(folder, [5, 1, 0, 1], 9, workers=2, rank=1, ranks=2, packing=12)


@pytest.mark.slow
@pytest.mark.parametrize("packing", [None, 12])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("rank", [0, 1])
def test_stream_goes_on_exactly_after_many_cuts(
    folder: Path, rank: int, workers: int, packing: int | None
) -> None:
    draw = random.Random(10 * workers + rank)
    for _ in range(2):
        cuts = [draw.choice([0, 1, 1, 2, 3, 5, 8, 13]) for _ in range(5)]
        check_cuts(folder, cuts, 20, workers=workers, rank=rank, ranks=2, packing=packing)


def test_state_before_the_first_batch_does_not_hang_with_workers(folder: Path) -> None:
    loader = stream(folder, workers=2)
    iter(loader)
    assert loader.save_state() == {"state": None, "skip": 0, "stock": None}
    loader.close()


def test_workers_end_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = stream(folder, workers=2)
    take(loader, 3)
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 30.0)
    begin = time.monotonic()
    loader.close()
    assert time.monotonic() - begin < 15, "energon alone waits for each worker, 5 seconds as it comes"


def test_empty_loader_is_an_error_and_does_not_spin() -> None:
    with pytest.raises(ValueError, match="gives no batch"):
        next(EnergonDataloader(DataLoader(TensorDataset(torch.zeros(0)))))


def test_state_comes_back_as_it_was(folder: Path) -> None:
    loader = stream(folder, packing=12)
    take(loader, 4)
    state = loader.dataloader.save_state_rank()
    assert repr(from_plain(through_a_file({"s": to_plain(state)})["s"])) == repr(state)


def test_unknown_part_of_a_state_is_refused() -> None:
    with pytest.raises(TypeError, match="a state of energon holds a"):
        to_plain({"value": object()})


def remade(folder: Path, **settings: Any) -> EnergonDataloader:
    """A stream whose workers are replaced."""
    first = stream(folder, **settings).dataloader
    return EnergonDataloader(first, None, lambda: stream(folder, **settings).dataloader)


def workers_of(loader: EnergonDataloader) -> list[Any]:
    return list(loader.dataloader._iterator._workers)


@pytest.mark.slow
def test_killed_worker_is_replaced_and_the_stream_stays_the_same(folder: Path) -> None:
    undisturbed = stream(folder, workers=2, packing=12)
    expected = take(undisturbed, 22)
    undisturbed.close()
    loader = remade(folder, workers=2, packing=12)
    found = take(loader, 3)
    for behind in (3, 2):  # since the beginning, and since a state that was saved
        workers_of(loader)[0].kill()
        time.sleep(0.3)  # the signal arrives here, where training would be at work
        state = through_a_file(loader.save_state())
        assert state["skip"] == behind, "without asking the dead worker"
        found += take(loader, 6)
        loader.save_state()
        found += take(loader, 2)
    found += take(loader, 3)
    loader.close()
    assert found == expected
    again = stream(folder, workers=2, packing=12)
    again.restore_state(state)
    assert take(again, 11) == expected[11:]
    again.close()


@pytest.mark.slow
def test_worker_killed_in_a_validation_is_replaced(folder: Path) -> None:
    dataset = get_val_dataset(
        str(folder), split_part="train", batch_size=2, task_encoder=NumberedPacks(),
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=2),
    )  # fmt: skip
    evaluation = EnergonPass(worker_safe(get_loader(dataset), False), SkipBudget(0))
    expected = [batch["numbers"] for batch in evaluation]
    found = []
    for batch in evaluation:
        found.append(batch["numbers"])
        if len(found) in (1, 4):
            evaluation.dataloader._iterator._workers[1].kill()
    assert len(expected) > 6
    assert found == expected


@pytest.mark.slow
def test_workers_that_are_killed_again_end_the_stream(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = remade(folder, workers=1)
    take(loader, 3)

    def restored_and_killed(loader: Any, state: Any) -> None:
        next(iter(loader))
        loader._iterator._workers[0].kill()

    monkeypatch.setattr(type(loader.dataloader), "restore_state_rank", restored_and_killed)
    workers_of(loader)[0].kill()
    with pytest.raises(RuntimeError, match="loader processes of energon were killed, and the new ones too"):
        take(loader, 20)
    loader.close()


def test_workers_end_with_a_killed_parent(folder: Path) -> None:
    def read(started: Any) -> None:
        loader = stream(folder, workers=2)
        take(loader, 1)
        started.send([worker.pid for worker in workers_of(loader)])
        time.sleep(60)

    assert_workers_end_with_their_parent(read)
