"""Two ranks take whole steps without a look at any value of a device between two rows of the log.

The model and its batches are on the meta device, where tensors have shapes and no values: who looks at one gets an error.
The ranks are two processes that add up their counts by gloo; torch's fake backend stands in for nccl.
"""

import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.loops import fit_loop
from lightning.pytorch.strategies import DDPStrategy
from torch.testing._internal.distributed import fake_pg  # noqa: F401  registers the backend

from tests.conftest import TINY, train_as
from tests.support import needs
from tests.support.processes import warm_process
from tiryns.runner.loop import trainer as building
from tiryns.runner.models.packed import attention as packed_attention
from tiryns.runner.modules.training import TrainingModule

RANK = """
import sys
from pathlib import Path
from tests.loop.test_no_waiting import train
rank, folder, looks, *words = sys.argv[1:]
train(int(rank), Path(folder), words, looks == "True")
"""

LOGGED = 4
"""The first step with a row in the log."""

ON_META = [
    "trainer.precision=bf16-true", f"trainer.log_every={LOGGED}", "trainer.max_steps=99", "trainer.validate_every=0",
    "trainer.devices=2", "checkpoint.every_steps=0", "callback.manifest.every=99",
    "callback.progress.seconds_per_line=1e-9",
]  # fmt: skip


class OnMeta(DDPStrategy):
    """Ranks on the meta device; their gradients are not added up, of which DDP makes no look at a value."""

    @property
    def root_device(self) -> torch.device:
        return torch.device("meta")

    def setup_distributed(self) -> None:
        self.set_world_ranks()
        torch.distributed.init_process_group(building.BACKENDS["gpu"].replace("cuda:nccl", "meta:fake"))

    def configure_ddp(self) -> None:
        pass

    def block_backward_sync(self) -> Any:
        return nullcontext()

    def teardown(self) -> None:
        pass


def train(rank: int, folder: Path, words: list[str], looks: bool) -> None:
    """Trains as one of two ranks up to its first look at the gradient, and notes the step."""
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
        TORCHELASTIC_RUN_ID="meta", MASTER_PORT=(folder / "port").read_text(),
    )  # fmt: skip
    made: Any = building
    cpu: Any = CPUAccelerator
    attention: Any = packed_attention
    loop: Any = fit_loop
    library: Any = torch
    made._strategy = lambda *_: OnMeta()
    library.autocast = lambda *_, **__: nullcontext()  # meta knows nothing of it
    library.is_autocast_enabled = lambda *_: False
    cpu.setup_device = lambda *_: None
    attention._has_flash = lambda _: True
    loop.has_len_all_ranks = lambda *_: True  # before the first step
    patched: Any = TrainingModule
    clip = TrainingModule._clip

    def looking(module: TrainingModule) -> Any:
        norm = clip(module)
        return norm if float(norm) else None

    def noted(module: TrainingModule, norm: Any, step: int, batch: Any) -> None:
        (folder / f"looked-{rank}").write_text(str(step + 1))
        sys.exit()

    if looks:
        patched._clip = looking
    patched.check_finite = noted
    train_as(folder / str(rank), words)


@pytest.fixture
def two_ranks(tmp_path: Path, text_file: Path) -> Any:
    """Trains two ranks with some settings; returns the step of the first look of each."""

    def call(*words: str, looks: bool = False) -> list[str]:
        with socket.socket() as free:
            free.bind(("", 0))
            (tmp_path / "port").write_text(str(free.getsockname()[1]))
        own = {word.partition("=")[0] for word in ON_META}
        tiny = [word for word in TINY if word.partition("=")[0] not in own]
        own_words = [*tiny, f"data.source={text_file}", *ON_META, *words]
        with ThreadPoolExecutor(2) as ranks:
            asked = [("-c", RANK, str(rank), str(tmp_path), str(looks), *own_words) for rank in range(2)]
            ended = [*ranks.map(lambda words: warm_process(*words, cwd=tmp_path), asked)]
        if any(done.returncode for done in ended):
            raise RuntimeError("".join(done.stderr for done in ended))
        return [(tmp_path / f"looked-{rank}").read_text() for rank in range(2)]

    return call


@pytest.mark.slow
def test_no_value_is_looked_at_between_two_rows_of_the_log(two_ranks: Any) -> None:
    needs.version("torch", "2.13", "adds up nothing on the meta device between ranks")
    assert two_ranks() == [str(LOGGED)] * 2


@pytest.mark.slow
def test_a_look_is_noticed(two_ranks: Any) -> None:
    with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
        two_ranks(looks=True)
