"""The data module that all indexed data share: the length of the run, its loaders, and where a resumed one goes on."""

import logging
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.objectives.samples import collator
from tests.samplers.sequences import Sequences
from tiryns.conf.data.common import Batching
from tiryns.runner.data.module import GlobalBatchDataModule
from tiryns.runner.samplers import Shuffled


class Counted(Sequences):
    """Sequences whose tokens are their own index, over and over."""

    def __init__(self, count: int) -> None:
        super().__init__(np.arange(count) % 7 + 3, np.zeros(count))

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengths = self.lengths(indices)
        return np.repeat(indices + 5, lengths), lengths


class Numbers(GlobalBatchDataModule):
    """Trains on 20 sequences, validates on two sets."""

    def __init__(self, **fields: Any) -> None:
        given = {"layout": "padded", "micro_batch_tokens": None, "micro_batch_size": None, "num_workers": 0}
        super().__init__(Batching(**given | fields))
        self.train, self.validation = Counted(20), {"few": Counted(3), "more": Counted(11)}

    def fingerprint(self) -> str:
        return "numbers"


def connected(max_steps: int = 6, max_epochs: float | None = None, size: int = 5, **more: Any) -> Numbers:
    data = Numbers()
    data.take_over({"cuts": more.pop("cuts", ())})
    make = partial(Shuffled, global_batch_size=size, seed=1)
    data.connect(make, collator("mlm"), max_steps, max_epochs, seed=1, **{"accept_changes": False} | more)
    return data


def in_run(data: Numbers, device: str = "cpu", rank: int = 0, num_ranks: int = 1) -> Numbers:
    """The data module as a Trainer of that place has it, at step 3."""
    strategy: Any = SimpleNamespace(root_device=torch.device(device))
    data.trainer = SimpleNamespace(global_rank=rank, world_size=num_ranks, global_step=3, strategy=strategy)  # type: ignore[assignment]
    return data


def samples_of(loader: Any) -> list[list[int]]:
    return [batch["sample_ids"][:, 1].tolist() for batch in loader]


def test_length_of_a_run_is_given_in_steps_or_in_epochs() -> None:
    assert len(connected(6).sampler) == 6
    assert len(connected(-1, 1.5).sampler) == 6
    assert len(connected(1).sampler) == 1
    assert len(connected(6, 1.5).sampler) == 6, "steps come first"
    assert connected(6).epoch_at(2) == 0.5
    assert [connected(-1, 1.4).epoch_at(step) for step in (5, 6)] == [1.25, 1.4]
    for max_steps, max_epochs in ((-1, None), (0, None), (0, 2.0)):
        epochs = f" and trainer.max_epochs={max_epochs}" if max_epochs else ""
        with pytest.raises(ValueError, match=f"^trainer.max_steps={max_steps}{epochs}: give one length"):
            connected(max_steps, max_epochs)


def test_training_goes_on_behind_the_batches_consumed() -> None:
    data = in_run(connected())
    whole = samples_of(data.train_dataloader())
    assert len(whole) == len(data.train_dataloader()) == 6
    state = data.state_dict()
    assert state["global_batches"] == 3
    again = in_run(connected())
    again.load_state_dict(state)
    assert samples_of(again.train_dataloader()) == whole[3:]


def test_longer_run_trains_on_the_rest_of_a_cut_batch() -> None:
    """The third batch of an epoch of 20 has 4 samples, and in a longer run 8."""
    short, whole = connected(-1, 1.0, size=8), connected(-1, 2.0, size=8)
    assert short.decisions() == {"cuts": [[3, 4]]}
    longer = connected(-1, 2.0, size=8, cuts=short.decisions()["cuts"])
    planned, trained = ([*map(data.sampler.global_batch, range(5))] for data in (whole, longer))
    assert [len(batch) for batch in trained] == [8, 8, 4, 12, 8]
    assert (np.concatenate(planned) == np.concatenate(trained)).all()
    assert (trained[2] == short.sampler.global_batch(2)).all()
    assert longer.decisions() == {"cuts": [[3, 4], [5, 8]]}
    assert len(connected(cuts=[[6, 3]]).sampler.global_batch(5)) == 5, "no batch follows"


def test_every_validation_sample_comes_once_over_all_ranks() -> None:
    for num_ranks in (1, 2):
        ranks = [
            in_run(connected(), rank=rank, num_ranks=num_ranks).val_dataloader() for rank in range(num_ranks)
        ]
        for loaders, count in zip(zip(*ranks, strict=True), (3, 11), strict=True):
            shares = [samples_of(loader) for loader in loaders]
            assert {len(share) for share in shares} == {-(-count // 5)}
            assert sorted(i for share in shares for batch in share for i in batch) == list(range(count))
    assert connected().validation_names == ["few", "more"]


def test_batches_are_pinned_for_a_gpu_alone() -> None:
    for device in ("cpu", "cuda"):
        data = in_run(connected(), device)
        for loader in (data.train_dataloader(), *data.val_dataloader()):
            assert loader.pin_memory == (device == "cuda")


def test_batch_on_a_cpu_is_not_gone_through() -> None:
    batch: Any = {"micro_batches": [object()]}
    assert connected().transfer_batch_to_device(batch, torch.device("cpu"), 0) is batch
    moved = connected().transfer_batch_to_device({"a": torch.ones(1)}, torch.device("meta"), 0)
    assert moved["a"].device.type == "meta"


def test_another_order_is_refused_by_name_or_accepted(caplog: pytest.LogCaptureFixture) -> None:
    state = in_run(connected()).state_dict()
    with pytest.raises(ValueError, match=r"global_batch_size was 5 and is 4\. To go on all the same"):
        in_run(connected(size=4)).load_state_dict(state)
    accepting = in_run(connected(size=4, accept_changes=True))
    with caplog.at_level(logging.WARNING):
        accepting.load_state_dict(state)
    assert accepting.start == 3
    assert "global_batch_size was 5 and is 4; going on all the same" in caplog.text
    with pytest.raises(ValueError, match="data was 'others' and is 'numbers'"):
        in_run(connected()).load_state_dict({**state, "data": "others"})
